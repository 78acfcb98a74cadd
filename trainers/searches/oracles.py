"""Keras Tuner's oracles of searches whose trials are composed, or without privacy."""

import math

import keras_tuner

from tfdpnorm.tuning.trials import objective


def oracle_of(spec, num_examples):
    """Returns the oracle of Keras Tuner that a `SearchSpec` asks for, on N examples."""
    run, trials = spec.run, math.ceil(spec.expected_trials)
    if spec.tuner == "hyperband":
        per_epoch = max(1, round(num_examples / run.examples_per_update))
        epochs = math.ceil(run.updates(num_examples) / per_epoch)
        oracle = keras_tuner.oracles.HyperbandOracle(objective(), max_epochs=epochs, seed=run.seed)
        oracle.max_trials = trials
        return oracle
    of = {
        "random": keras_tuner.oracles.RandomSearchOracle,
        "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
    }[spec.tuner]
    return of(objective(), max_trials=trials, seed=run.seed)
