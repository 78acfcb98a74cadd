"""Arguments of make_private: refused in clear words, or a training that is what it claims to be."""

import warnings
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import strategies as st
from tensorflow import keras

from tests.each import each
from tests.fuzz.linear import FEATURES, OUTPUTS, clipped_rows, linear_model, lot_of, vector
from tests.fuzz.targets import Refusal, attempt, fuzz
from tests.private_of import private_of
from tfdpnorm.gradients.engines.registry import available_engines
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.accountants import RDP_ORDERS

N, RATE = 12, 0.1
INF, NAN = float("inf"), float("nan")

# With noise of a standard deviation above this on the weights, they may leave float32; below it
# they must not.
ASTRONOMICAL = 1e30

RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, FEATURES)).astype(np.float32)
Y = RNG.normal(size=(N, OUTPUTS)).astype(np.float32)
PUBLIC = RNG.normal(size=(6, FEATURES)).astype(np.float32)

PLAIN = dict(
    num_examples=N, expected_batch_size=6, steps=4, l2_norm_clip=1.0, noise_multiplier=1.0,
    delta=1e-3,
)  # fmt: skip

NO_NUMBERS = (None, "1", "", b"1", [1], (1,), {}, 1j, NAN, np.array([1.0, 2.0]), object())
NO_WHOLES = (0, -1, 2.5, INF, True, 10**400, *NO_NUMBERS)
NO_POSITIVES = (0, 0.0, -0.0, -1, -1e-9, -INF, True, *NO_NUMBERS)
NO_WORDS = (None, 1, "", "Flat", "fast", b"flat", ["flat"], True)

# Values that must do,
GOOD = {
    "expected_batch_size": (1, 2.5, 6, N, float(N), 1e-3, np.float32(3), Fraction(7, 2)),
    "steps": (1, 2, 1000, 10**6, np.int64(4), 4.0),
    "l2_norm_clip": (1e-6, 0.5, 3, 1e3, np.float32(2)),
    "noise_multiplier": (0, 0.0, 0.3, 1.0, 5, 1e3, np.float64(2)),
    "delta": (1e-12, 1e-5, 0.08),
    "accountant": ("rdp", "pld"),
    "engine": (None, *(e.name for e in available_engines())),
    "physical_batch_size": (None, 1, 3, 8, 100),
    "loss_scale": (None, 1, 1.0, 1024, 0.5, np.float32(8)),
    "pull_back_weight": (1, 0.5, 3.0, 100.0),
    "clipping": ("flat", "per_layer"),
    "clip_function": ("abadi", "automatic"),
    "augmentation_multiplicity": (1, 2, 3),
    "noise_generator": (None, "philox"),
    "insecure_seed": (None, 0, 7, 2**70),
}
# values that must be refused,
BAD = {
    "num_examples": NO_WHOLES,
    "expected_batch_size": (N + 1, N + 1e-3, 1e300, INF, *NO_POSITIVES),
    "steps": NO_WHOLES,
    "l2_norm_clip": (INF, *NO_POSITIVES),  # with noise
    "noise_multiplier": (-1, -1e-30, INF, -INF, True, *NO_NUMBERS),
    "delta": (1, 1.0, 2, INF, *NO_POSITIVES),
    "accountant": ("RDP", "gdp", *NO_WORDS),
    "engine": ("Book_keeping", *NO_WORDS[1:]),
    "physical_batch_size": (0, -1, 2.5, 2.0, INF, NAN, "8", "Auto", [8], True, 1j),
    "loss_scale": (0, -1, INF, "8", b"8", [8], {}, 1j, NAN, True, np.array([1.0, 2.0])),
    "pull_back_weight": (INF, *NO_POSITIVES),
    "clipping": ("per layer", *NO_WORDS),
    "clip_function": ("Abadi", *NO_WORDS),
    "augmentation_multiplicity": (0, -1, 1.5, 2.0, True, *NO_NUMBERS),
    "noise_generator": ("Philox", *NO_WORDS[1:]),
    "insecure_seed": (-1, 1.5, NAN, INF, "1", b"1", [1], True, 1j),
    "checkpoint_every": (0, -1, 1.5, "1", True, [1], INF),
    "augmentation": (3, "flip", [1]),
    "budget": (1.0, (1.0, 1e-3), "1", {}, [1.0, 1e-3], True),
}
# and values on which both may be said, but nothing else done.
EXTREME = {
    "num_examples": (1, N - 1, N + 1, 10**9, 2**63, 10**300, float(N)),
    "expected_batch_size": (5e-324, 1e-300, 1e-30, 1e-12),
    "steps": (10**9, 2**63, 10**30, 10**300),
    "l2_norm_clip": (5e-324, 1e-300, 1e-45, 1e-38, 1e-30, 1e-19, 1e-10, 1e10, 1e30, 1e38, 1e300),
    "noise_multiplier": (5e-324, 1e-300, 1e-30, 1e-5, 0.01, 1e10, 1e30, 1e38, 1e300),
    "delta": (5e-324, 1e-300, 1e-30, 0.5, 1 - 2**-53),
    "physical_batch_size": (10**9, 10**30, np.int64(3)),
    "loss_scale": (5e-324, 1e-300, 1e-30, 1e-19, 1e-6, 1e6, 1e10, 1e19, 1e30, 1e300),
    "pull_back_weight": (5e-324, 1e-300, 1e-30, 1e-10, 1e10, 1e30, 1e300),
    "augmentation_multiplicity": (np.int64(2), 50),
    "insecure_seed": (np.int64(3),),
    "budget": tuple(
        (epsilon, delta)
        for epsilon in (1e-300, 1e-12, 1e-3, 0.1, 1.0, 50.0, 1e4, 1e300, INF)
        for delta in (5e-324, 1e-12, 1e-3, 0.999)
    ),
}


CASES = [
    (quality, name, value)
    for quality, pool in (("good", GOOD), ("bad", BAD), ("extreme", EXTREME))
    for name, values in pool.items()
    for value in values
]


@st.composite
def settings_of(draw):
    """Settings, and the names of those that must be rejected."""
    settings, bad = dict(PLAIN), set()
    if draw(st.integers(0, 3)) == 0:
        settings["norm"] = draw(st.sampled_from(["public", "blend", "example", "lot"]))
    for _ in range(draw(st.integers(1, 3))):
        quality, name, value = draw(st.sampled_from(CASES))
        settings[name] = value
        bad.discard(name)
        if quality == "bad":
            bad.add(name)
    if "budget" in settings:
        del settings["noise_multiplier"], settings["delta"]
        bad -= {"noise_multiplier", "delta"}
        if "budget" not in bad:
            settings["budget"] = PrivacyBudget(*settings["budget"])
    if settings["l2_norm_clip"] is INF and settings.get("noise_multiplier", 1) in (0, 0.0):
        bad.discard("l2_norm_clip")
    if settings.get("accountant") == "pld" and ("budget" in settings or settings["steps"] != 4):
        settings["accountant"] = "rdp"  # Seconds to hours; that one has tests of its own.
    return settings, bad


def prepared(settings, run_dir=None):
    settings = dict(settings)
    norm = settings.pop("norm", None)
    model = linear_model()
    if norm is not None:
        layer = PublicBatchNormalization(statistics=norm)
        model = keras.Sequential([keras.Input((FEATURES,)), layer, *model.layers])
        settings["public_batch"] = PUBLIC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = private_of(model, run_dir=run_dir, **settings)
    private.compile(keras.optimizers.SGD(RATE), "mse")
    return private


@pytest.mark.slow
@fuzz(drawn=settings_of(), in_folder=st.integers(0, 3).map(lambda n: n == 0), quick=12, share=0.25)
def test_any_settings_train_or_are_rejected(drawn, in_folder, tmp_path_factory):
    settings, bad = drawn
    run_dir = tmp_path_factory.mktemp("run") / "run" if in_folder else None
    if settings.get("checkpoint_every") and not in_folder:
        bad = {"checkpoint_every"}
    private = attempt(lambda: prepared(settings, run_dir))
    if isinstance(private, Refusal):
        assert run_dir is None or not run_dir.exists()
        return "refused"
    try:
        assert not bad
        return trained(private, settings)
    finally:
        if in_folder:
            private.ledger.close()


def trained(private, settings):
    plan = private.plan
    # An epoch is as many lots as hold all rows on the average, or what the plan has.
    whole = plan.steps <= 4 and plan.sampling_rate < 0.1
    updates = plan.steps if whole else min(2, plan.steps)
    of_epoch = None if whole else updates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = attempt(lambda: private.fit(X, Y, epochs=1, steps_per_epoch=of_epoch, verbose=0))
    if isinstance(found, Refusal):
        assert plan.num_examples != N and private.ledger.updates == 0
        return "refused by fit"
    assert plan.num_examples == N
    assert private.ledger.updates == private.ledger.state.position == updates
    check_epsilon(private, settings)
    weights = vector(private.model.get_weights())
    kick = RATE * plan.noise_multiplier * min(plan.l2_norm_clip, 1e300) / plan.expected_batch_size
    if settings.get("pull_back_weight", 1) < 1 and "norm" in settings:
        kick /= settings["pull_back_weight"] ** 2
    if kick > ASTRONOMICAL or (plan.noise_multiplier and not np.isfinite(weights).all()):
        assert kick > ASTRONOMICAL, kick
        return "trained by astronomical noise"
    assert np.isfinite(weights).all()
    check_sum(private, settings)
    return "trained"


def check_epsilon(private, settings):
    plan, ledger = private.plan, private.ledger
    void = plan.noise_multiplier == 0 or settings.get("insecure_seed") is not None
    void = void or settings.get("norm") == "lot"
    assert ledger.guarantee_holds == (not void)
    assert ("NO GUARANTEE" in private.privacy_statement()) == void
    if void:
        assert ledger.epsilon() == INF
        return
    epsilon, updates = ledger.epsilon(), ledger.updates
    assert 0 <= epsilon and plan.epsilon_after(updates) == epsilon
    if "budget" in settings:
        assert plan.epsilon_after(plan.steps) <= settings["budget"].epsilon
    q, z = plan.sampling_rate, plan.noise_multiplier
    if plan.accountant == "rdp" and z >= 1e-3 and q >= 1e-6:
        event = dp_accounting.GaussianDpEvent(z)
        event = event if q == 1 else dp_accounting.PoissonSampledDpEvent(q, event)
        event = dp_accounting.SelfComposedDpEvent(event, updates)
        theirs = RdpAccountant(orders=RDP_ORDERS).compose(event).get_epsilon(plan.delta)
        assert epsilon >= theirs * (1 - 1e-9)
        if q >= 1e-3 and z <= 1e3:
            assert epsilon <= theirs * (1 + 1e-6) + 1e-9
    if 0.3 <= z <= 5 and q >= 0.05 and plan.delta >= 1e-12:
        # No accountant may be below the privacy loss that there is, rounded downwards.
        least = privacy_loss_distribution.from_gaussian_mechanism(
            z,
            sampling_prob=q,
            value_discretization_interval=1e-2,
            pessimistic_estimate=False,
            use_connect_dots=False,
        )
        least = least.self_compose(updates).get_epsilon_for_delta(plan.delta)
        assert epsilon >= least * (1 - 1e-6)


def check_sum(private, settings):
    """The clipped sum is what it is by definition, or at least as small as it must be."""
    clip = private.plan.l2_norm_clip
    rows = settings.get("physical_batch_size")
    rows = None if rows is None else min(int(rows), N)
    weights = private.model.get_weights()
    found = vector(private.clipped_sum(lot_of(X, Y, rows=rows)))
    assert np.isfinite(found).all()
    if settings.get("norm") == "lot":
        return
    assert np.linalg.norm(found) <= N * clip * (1 + 1e-5) + 1e-30
    scale = settings.get("loss_scale") or 1.0
    if "norm" in settings or not 1e-6 <= scale <= 1e6 or np.abs(vector(weights)).max() > 1e3:
        return
    clipping = settings.get("clipping", "flat"), settings.get("clip_function", "abadi")
    each = clipped_rows(weights, X, Y, clip, *clipping)
    np.testing.assert_allclose(found, each.sum(0), rtol=1e-3, atol=1e-4 * np.abs(each).sum())


@each("epsilon", [0, -1, NAN, -INF, None, "1", True, 1j, [1]])
@each("delta", [1e-3, 0, 1, 2, NAN, -1e-9, None, "1", True])
def test_budgets(epsilon, delta):
    """Also those in which both are wrong have one error."""
    assert isinstance(attempt(lambda: PrivacyBudget(epsilon, delta)), Refusal)
