"""The way from a Keras model to private training."""

import numbers
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit import check_known_layers
from tfdpnorm.gradients.engines.registry import check_engine, default_engine
from tfdpnorm.privacy import PrivacyLedger, make_plan
from tfdpnorm.training.checks.settings import (
    check_budget_share,
    check_clipping,
    check_factor,
    check_float32,
    check_insecure_seed,
    check_multiplicity,
    check_public_rows,
)
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.resume.run_folder import RunFolder
from tfdpnorm.training.step.lot_gradients import LotGradients
from tfdpnorm.training.step.noise import GaussianNoise, check_generator
from tfdpnorm.training.step.noised_statistics import (
    DEFAULT_BUDGET_SHARE,
    QUERIES_PER_LAYER,
    noised_layers,
)
from tfdpnorm.training.step.streams import Streams
from tfdpnorm.training.step.views import Views

MIXED_FLOAT16_LOSS_SCALE = 1024.0


def make_private(
    model,
    *,
    num_examples,
    expected_batch_size,
    steps,
    l2_norm_clip,
    budget=None,
    noise_multiplier=None,
    delta=None,
    public_batch=None,
    statistics_budget_share=None,
    accountant="rdp",
    engine=None,
    physical_batch_size=None,
    loss_scale=None,
    pull_back_weight=1.0,
    clipping="flat",
    clip_function="abadi",
    augmentation_multiplicity=1,
    augmentation=None,
    validate=True,
    run_dir=None,
    resume=False,
    checkpoint_every=None,
    noise_generator="philox",
    insecure_seed=None,
):
    """Makes a Keras model trainable under differential privacy.

    The model is wrapped, not copied: training changes its weights.

    Args:
        model: A Sequential, functional or subclassed Keras model.
        num_examples: N, the number of private training examples.
        expected_batch_size: L, the expected lot size; each example is in a lot with probability
            q = L / N, independently, and sums are divided by L.
        steps: T, the number of updates planned.
        l2_norm_clip: C, the clipping norm of each example's gradient.
        budget: `PrivacyBudget`: the noise multiplier is calibrated to reach it after T updates.
        noise_multiplier: z, instead of a budget: standard deviation of the noise on the sum of
            clipped gradients, over C. 0 trains without noise, and without a guarantee.
        delta: With `noise_multiplier`.
        public_batch: [M, ...] rows that are not private, for `PublicBatchNormalization` layers.
            They must be chosen without looking at the private data, and not be part of it.
        statistics_budget_share: s, for a model with `NoisedBatchNormalization` layers: their share
            of each update's privacy loss, 0 < s < 1; None for 0.2. The noise on the gradients grows
            by 1 / sqrt(1 - s), and the guarantee is the same for any s.
        accountant: "rdp" or "pld".
        engine: How clipped sums are computed, one of `tfdpnorm.training.ENGINES`; all give the same
            sum. None: "book_keeping", the fastest, but "per_example" with statistics "example", and
            with "lot" and its full gradient, for which the other cannot be.
        physical_batch_size: Rows that go through the model at once; smaller than a lot saves
            memory and changes nothing else. None for a whole lot at once.
        loss_scale: Constant factor on the loss during back-propagation, undone before clipping.
            None: 1, or 1024 for a model that computes in float16.
        pull_back_weight: Factor > 0 on the gradients by gamma and beta of public-batch layers
            before clipping, undone after the noise. They are small beside the kernels' and the
            pull-back multiplies their noise: a factor above 1 gives them less noise for a share of
            the clipping norm. The guarantee is the same for any factor.
        clipping: "flat": the gradient by all weights is clipped as one vector, to C. "per_layer":
            that by each of G layers' weights by itself, to C / sqrt(G). The guarantee is the same.
        clip_function: "abadi", min(1, C / norm), or "automatic", C / (norm + 0.01); see
            `tfdpnorm.gradients.clip_factors`.
        augmentation_multiplicity: K: the gradient of an example is that of the mean loss of K views
            of it. Takes K times the time and memory; the guarantee is the same.
        augmentation: Keras layer, or function from inputs [rows, ...] to as many, that makes a
            view of each row *by itself*: what mixes rows voids the guarantee. Or a list of K of
            them, one for each view. Random numbers are drawn for a row's place in the lot, which
            the presence of another row moves: they must stay as secret as the noise, and no global
            seed may be known that they follow from. Fixed views have nothing to hide.
        validate: Whether to run the model, its loss and its augmentation on a few made-up rows, to
            see whether examples meet in them (`tfdpnorm.audit.validate`). Without it the statement
            says that nobody looked.
        run_dir: Folder for the ledger, written before each update, and for checkpoints, so that
            the run survives a crash (see `RunFolder`). None keeps both in memory.
        resume: Go on with the run that `run_dir` holds; with a new one if it holds none. Everything
            that the guarantee rests on must be as it was.
        checkpoint_every: Updates between checkpoints; None for one after each epoch.
        noise_generator: "philox", or "shake256", a cryptographic generator: slower, some 10 ms for
            each million weights, and not to be compiled by XLA.
        insecure_seed: For tests: makes noise and sampled lots repeatable. No guarantee holds.

    Returns:
        A `PrivateModel`; `compile` and `fit` it.

    Raises:
        ValueError: with what was expected, for anything that does not fit together, and for models
            whose layers mix examples.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(f"Expected a tf.keras.Model, got {type(model).__name__}.")
    if engine is not None:
        check_engine(engine)
    check_known_layers(model)
    if physical_batch_size is not None and (
        not isinstance(physical_batch_size, numbers.Integral)
        or isinstance(physical_batch_size, bool)
        or physical_batch_size < 1
    ):
        raise ValueError(
            "Expected physical_batch_size to be a positive int or None, got "
            f"{physical_batch_size!r}."
        )
    if public_batch is not None:
        public_batch = tf.nest.map_structure(np.asarray, public_batch)
        tf.nest.map_structure(check_public_rows, public_batch)
        public_batch = tf.nest.map_structure(tf.convert_to_tensor, public_batch)
    streams = Streams(model, public_batch)
    engine = default_engine(streams) if engine is None else engine
    if streams.rows_mix and engine in ("book_keeping", "tfp_model"):
        raise ValueError(
            f'Expected engine="per_example" or "tfp_vectorized" with statistics="lot", got '
            f"{engine!r}, which presumes that rows do not mix. Or use "
            'statistics_gradient="stop".'
        )
    if streams.mode == "example" and engine == "book_keeping":
        raise ValueError(
            'Expected engine="per_example" with statistics="example", which re-runs the public '
            "rows for each example, got 'book_keeping'."
        )
    check_clipping(engine, clipping, clip_function, l2_norm_clip)
    check_multiplicity(augmentation_multiplicity, augmentation, streams.mode)
    check_factor("pull_back_weight", pull_back_weight)
    noised = noised_layers(model)
    check_budget_share(statistics_budget_share, noised, streams.mode)
    if noised and statistics_budget_share is None:
        statistics_budget_share = DEFAULT_BUDGET_SHARE
    if loss_scale is not None:
        check_factor("loss_scale", loss_scale)
    check_insecure_seed(insecure_seed)
    check_generator(noise_generator)
    reasons = []
    if streams.mode == "lot":
        reasons.append(
            'statistics="lot" lets every example of a lot move the gradients of all the others, so '
            "that clipping does not bound what one example changes"
        )
    if insecure_seed is not None:
        reasons.append("the noise and the lots come from a seed that is not secret")
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=expected_batch_size,
        steps=steps,
        l2_norm_clip=l2_norm_clip,
        budget=budget,
        noise_multiplier=noise_multiplier,
        delta=delta,
        accountant=accountant,
        no_guarantee_because=tuple(reasons),
        statistics_queries=QUERIES_PER_LAYER * len(noised),
        statistics_budget_share=statistics_budget_share or 0.0,
    )
    check_float32(plan)
    _keep_float32()
    if loss_scale is None:
        half = any(
            layer.compute_dtype == "float16" for layer in model._flatten_layers(include_self=False)
        )
        loss_scale = MIXED_FLOAT16_LOSS_SCALE if half else 1.0
    details = {
        "engine": engine,
        "statistics": streams.statistics,
        "clipping": clipping,
        "clip_function": clip_function,
        "augmentation_multiplicity": augmentation_multiplicity,
        "pull_back_weight": float(pull_back_weight),
        "loss_scale": float(loss_scale),
        "noise_generator": noise_generator,
        "insecure_seed": insecure_seed,
    }
    if checkpoint_every is not None and (
        not isinstance(checkpoint_every, int)
        or isinstance(checkpoint_every, bool)
        or checkpoint_every < 1
    ):
        raise ValueError(
            f"Expected checkpoint_every to be a positive int or None, got {checkpoint_every!r}."
        )
    folder = None
    if run_dir is not None:
        folder = RunFolder(run_dir, plan, details, resume=resume, insecure_seed=insecure_seed)
    elif resume or checkpoint_every is not None:
        raise ValueError("Expected run_dir with resume and checkpoint_every, got None.")
    lot_gradients = LotGradients(
        model,
        streams,
        Views(augmentation_multiplicity, augmentation),
        plan,
        engine=engine,
        loss_scale=loss_scale,
        pull_back_weight=pull_back_weight,
        clipping=clipping,
        clip_function=clip_function,
    )
    private = PrivateModel(
        model,
        ledger=PrivacyLedger(plan, details) if folder is None else folder.ledger,
        streams=streams,
        lot_gradients=lot_gradients,
        noise=GaussianNoise(insecure_seed, None if folder is None else folder.key, noise_generator),
        physical_batch_size=physical_batch_size,
        validate=validate,
        run_folder=folder,
        checkpoint_every=checkpoint_every,
    )
    private.row_checks.check_model()
    return private


def _keep_float32():
    """Has GPUs multiply float32 in float32, and says so.

    In TensorFloat-32, their default, norms and clipped sums are off by a thousandth each, and a row
    could exceed the clip by as much.
    """
    if tf.config.list_logical_devices("GPU") and (
        tf.config.experimental.tensor_float_32_execution_enabled()
    ):
        tf.config.experimental.enable_tensor_float_32_execution(False)
        warnings.warn(
            "TensorFloat-32 is switched off in this process: it would round the norms that "
            "gradients are clipped by. For speed, use the policy mixed_float16 or mixed_bfloat16.",
            stacklevel=3,
        )
