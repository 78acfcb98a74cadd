"""Ours: public-batch normalisation with other public rows, and on small data."""

import dataclasses

from trainers.cells import with_changes
from trainers.davody import cells as davody
from trainers.ours import finetune_cells as finetune
from trainers.ours.method_settings import (
    DIGITS,
    DIGITS_COLUMNS,
    EPSILONS,
    FEATURES,
    FEATURES_EPSILONS,
    FEATURES_ROWS,
    FEW_SMALL_LOTS,
    MISMATCH,
    PUBLIC_ROWS,
    STATISTICS,
)


def public_rows_cells():
    """The same training with different public rows: real ones first, then synthetic ones."""
    trained = [
        _ours(
            davody.spec(dataset, "public_batch", epsilon, **settings, public_dataset=source),
            "method_public_rows",
            f"{dataset}-{source.removeprefix('synthetic:')}",
        )
        for dataset, columns in PUBLIC_ROWS.items()
        for epsilon, (settings, sources) in columns.items()
        for source in sources
    ]
    on_features = [
        _ours(
            finetune.spec("cifar10", epsilon, **FEATURES, public_dataset=source),
            "method_public_rows",
            f"cifar10_features-{source.removeprefix('synthetic:')}",
        )
        for epsilon in FEATURES_EPSILONS
        for source in FEATURES_ROWS
    ]
    return trained + on_features


def small_data_cells():
    """Normalisations beside each other on 1,437 images, and on 400 lots of 32."""
    digits = [digits_spec(name, epsilon) for name in DIGITS for epsilon in EPSILONS]
    mnist = [
        _ours(
            davody.spec("mnist", norm, epsilon, **STATISTICS | settings),
            "method_small_data",
            f"mnist-{name}",
        )
        for name, (norm, settings) in FEW_SMALL_LOTS.items()
        for epsilon in EPSILONS
    ]
    return digits + mnist


def digits_spec(name, epsilon, **changes):
    """The spec of a network on DIGITS, with the settings of the largest budget that is no larger.

    Args:
        name: One of `DIGITS`.
        epsilon: Target epsilon.
        **changes: Fields of `PrivateSpec` that replace ours; None leaves ours in place.
    """
    norm, settings = DIGITS[name]
    column = max((e for e in DIGITS_COLUMNS if e <= epsilon), default=min(DIGITS_COLUMNS))
    settings = with_changes(DIGITS_COLUMNS[column] | settings, changes)
    return _ours(
        davody.spec("digits", norm, epsilon, **settings), "method_small_data", f"digits-{name}"
    )


def mismatch_spec(epsilon, *, seed, steps):
    """The spec of the runs of `method_mismatch`: public rows are split off, and then altered."""
    spec = davody.spec("mnist", "public_batch", epsilon, seed=seed, **MISMATCH | {"steps": steps})
    return _ours(spec, "method_mismatch", "lenet5")


def _ours(spec, experiment, network):
    return dataclasses.replace(
        spec, experiment=experiment, network=network, paper_value=None, ema_decay=None
    )


EXPERIMENTS = {"method_public_rows": public_rows_cells, "method_small_data": small_data_cells}
