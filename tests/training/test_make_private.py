"""`make_private` takes values; what they say together is what is trained, or is rejected."""

import math
import subprocess
import sys

import pytest

from tests.each import each
from tfdpnorm import Clipping, PrivacyBudget, PublicBatch, make_plan, make_private
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.gradients.clipping import FLOAT16_LOSS_SCALE
from tfdpnorm.layers import NoisedBatchNormalization
from tfdpnorm.training.suggested_rate import signal_to_noise


@pytest.fixture
def plan():
    def made(**settings):
        given = dict(
            num_examples=40,
            expected_batch_size=10,
            steps=8,
            l2_norm_clip=0.7,
            noise_multiplier=1.0,
            delta=1e-5,
        )
        return make_plan(**{**given, **settings})

    return made


def test_the_norm_is_that_of_the_plan(build, plan):
    clipping = make_private(build(), plan())._update.clipping
    assert (clipping.l2_norm_clip, clipping.grouping) == (0.7, "flat")
    assert clipping.sensitivity == 0.7
    same = Clipping(0.7, "per_layer", "automatic", loss_scale=8.0)
    clipping = make_private(build(), plan(), clipping=same)._update.clipping
    assert (clipping.grouping, clipping.function) == ("per_layer", "automatic")
    assert clipping.loss_scale == 8.0
    with pytest.raises(ValueError, match="0.7, got 0.8"):
        make_private(build(), plan(), clipping=Clipping(0.8))


@each("policy, scale", [("float32", 1.0), ("mixed_float16", None)])
def test_the_loss_scale_is_that_of_the_precision(build, plan, set_policy, policy, scale):
    set_policy(policy)
    scale = FLOAT16_LOSS_SCALE if scale is None else scale
    assert make_private(build(), plan()).loss_scale == scale
    assert make_private(build(), plan(), clipping=Clipping(loss_scale=2.0)).loss_scale == 2.0


def test_the_plan_learns_what_only_the_model_can_tell(build, plan):
    reason = "the examples were chosen by looking at them"
    given = plan(no_guarantee_because=(reason,), statistics_budget_share=0.3)
    model = build()
    model.add(NoisedBatchNormalization())
    private = make_private(model, given, insecure_seed=1)
    assert private.plan.statistics_queries == 2 and private.plan.statistics_budget_share == 0.3
    assert private.plan.noise_multiplier == given.noise_multiplier
    assert math.isclose(private.plan.gradient_noise_multiplier, 1 / math.sqrt(0.7))
    assert private.plan.no_guarantee_because[0] == reason
    assert "from a seed that is not secret" in private.plan.no_guarantee_because[1]
    assert private.privacy_statement().startswith("NO GUARANTEE")
    # A plan alone has nothing to spend the share on.
    assert given.statistics_queries == 0 and given.gradient_noise_multiplier == 1.0


@each(
    "noise_multiplier, pull_back, shrinks",
    [
        (100.0, "auto", True),
        (0.1, "auto", False),
        (0.0, "auto", False),
        (100.0, "whole", False),
        (0.1, "shrunk", True),
    ],
)
def test_the_pull_back_is_shrunk_where_there_is_little_signal(
    build, plan, public, noise_multiplier, pull_back, shrinks
):
    settings = plan(noise_multiplier=noise_multiplier)
    rows = PublicBatch(public, pull_back=pull_back)
    model = build(norm="public_batch")
    private = make_private(model, settings, public_batch=rows)
    assert private.streams.shrinks is shrinks
    if pull_back == "auto" and shrinks:
        # The figures of docs/which_normalisation.md lie on both sides of 7.
        of_unit_noise = signal_to_noise(model, plan(noise_multiplier=1.0))
        for signal, is_little in ((6.9, True), (7.1, False)):
            settings = plan(noise_multiplier=of_unit_noise / signal)
            assert make_private(model, settings, public_batch=rows).streams.shrinks is is_little


def test_other_things_than_values_are_rejected(build, plan):
    for settings in ({"clipping": "per_layer"}, {"clipping": 1.0}, {"views": 4}):
        with pytest.raises(ValueError, match=f"Expected {next(iter(settings))}"):
            make_private(build(), plan(), **settings)
    with pytest.raises(ValueError, match="make_plan"):
        make_private(build(), {"num_examples": 40})
    with pytest.raises(FileNotFoundError, match="bn.keras"):
        make_private("bn.keras", plan())


def test_a_second_phase_counts_the_first(build, plan, data, cross_entropy, tmp_path):
    model = build()
    first = make_private(model, plan(steps=4), run_dir=tmp_path / "first")
    first.compile("sgd", cross_entropy)
    first.fit(*data, verbose=0)
    first.ledger.close()
    both = plan(steps=4, l2_norm_clip=0.1, noise_multiplier=3.0, after=first.ledger)
    second = make_private(model, both)
    second.compile("sgd", cross_entropy)
    assert second.ledger.epsilon() == pytest.approx(first.ledger.epsilon())
    second.fit(*data, verbose=0)
    assert second.ledger.epsilon() > first.ledger.epsilon()
    said = second.privacy_statement()
    assert f"run {first.ledger.run_id} (4 at q = 0.25 and z = 1)" in said
    assert not second.ledger.state.has("foreign_weights")
    # Weights of a run that is counted nowhere are said to be so, as ever.
    third = make_private(model, plan(steps=4, after=first.ledger))
    (foreign,) = third.ledger.state.sentences("foreign_weights")
    assert second.ledger.run_id in foreign or "epsilon" in foreign


def test_switched_off_eager_execution_is_named():
    """In a process of its own: it cannot be switched on again."""
    lines = [
        "import tensorflow as tf",
        "tf.compat.v1.disable_eager_execution()",
        "from tfdpnorm import convert_model, make_plan, make_private",
        "model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(3)])",
        "plan = make_plan(num_examples=40, expected_batch_size=10, steps=8, l2_norm_clip=1.0,",
        "                 noise_multiplier=1.0, delta=1e-5)",
        "make_private(model, plan)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: Eager execution is switched off"), last
    assert "disable_eager_execution()" in last


def test_a_budget_whose_delta_would_not_hold(build, plan):
    """What rounding can add to delta grows with epsilon: beyond about 30 it is more than delta."""
    given = dict(num_examples=40, expected_batch_size=10, steps=8, l2_norm_clip=0.7)
    dear = make_plan(**given, budget=PrivacyBudget(50.0, 1e-5))
    with pytest.raises(PrivacyError, match="No guarantee would hold.*math.inf.*smaller epsilon"):
        make_private(build(), dear)
    with pytest.warns(PrivacyWarning, match="No guarantee would hold"):
        private = make_private(build(), plan(noise_multiplier=0.1))
    assert private.ledger.guarantee_holds  # nothing has been spent


def test_inputs_and_outputs_are_those_of_the_wrapped_model(build, private):
    model = build("functional")
    wrapped = private(model)
    assert wrapped.inputs is model.inputs and wrapped.outputs is model.outputs
    assert wrapped.input is model.input and wrapped.output is model.output
    assert wrapped.input_shape == (None, 5) and wrapped.output_shape == (None, 3)
    assert wrapped.get_layer(index=1) is model.layers[1]
