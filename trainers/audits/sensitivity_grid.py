"""The paths of this library whose sensitivity is measured, one by one."""

import time

from tfdpnorm.gradients.engines.registry import available_engines
from trainers.audits.run import run_sensitivity
from trainers.records.fields import fields_of
from trainers.records.made_with import made_with
from trainers.specs import AuditSpec

# Small enough to be measured in every way.
_THOROUGH = ("lenet5", "mlp")
# Gradient ascent through an engine takes longer than everything else.
_ASCENT_STEPS = {"mlp": 5}
_OWN_NORMS = {"resnet9": "group", "resnet18": "group", "vgg": "group", "wrn_16_4": "group"}
_LOTS = {"mlp": 32, "lenet5": 16, "bilstm": 16, "transformer": 16}
_LARGE_MODEL_LOT = 8


def sensitivity_grid(names):
    """Returns the `AuditSpec`s to measure for models of these names.

    For small models these are every engine, way of clipping, physical batch size, augmentation and
    kind of statistics, one at a time; for other models the defaults alone.
    """
    specs = []
    for name in names:
        lot = _LOTS.get(name, _LARGE_MODEL_LOT)
        base = AuditSpec(model=name, norm=_OWN_NORMS.get(name, "layer"), expected_batch_size=lot)
        public = base.replaced(norm="public_batch")
        noised = base.replaced(norm="noised_batch")
        variations = [(base, {}), (base, {"physical_batch_size": lot // 2})]
        if name in _THOROUGH:
            variations += [
                *((base, {"engine": engine.name}) for engine in available_engines()[1:]),
                (base, {"clipping": "per_layer"}),
                (base, {"clip_function": "automatic"}),
                (base, {"clipping": "per_layer", "clip_function": "automatic"}),
                (base, {"augmentation_multiplicity": 2}),
                (base, {"augmentation_multiplicity": 2, "engine": "per_example"}),
                (public, {}),
                (public, {"engine": "per_example", "physical_batch_size": lot // 4}),
                (public, {"statistics_gradient": "stop"}),
                (public, {"statistics": "blend"}),
                (public, {"public_dataset": "synthetic"}),
                (public, {"statistics": "example"}),
                (public, {"statistics": "lot"}),
                (public, {"statistics": "lot", "statistics_gradient": "stop"}),
                (noised, {}),
            ]
        specs += [of.replaced(**changes) for of, changes in variations]
    return specs


def run_grid(specs, *, ascent_steps=None, data_dir=None, echo=print):
    """Measures specs and returns the record, with the keys `SENSITIVITY_FIELDS`.

    By default there are 5 `ascent_steps` for "mlp", else 0; see `measure_sensitivity`.
    """
    started = time.perf_counter()
    rows = []
    for spec in specs:
        steps = _ASCENT_STEPS.get(spec.model, 0) if ascent_steps is None else ascent_steps
        rows.append(_measured(spec, steps, data_dir))
        echo(describe(rows[-1]))
    settings = {"ascent_steps": ascent_steps, "specs": [spec.settings for spec in specs]}
    return {
        "experiment": "audit_sensitivity",
        "kind": "sensitivity",
        "cell": "+".join(dict.fromkeys(spec.model for spec in specs)),
        "rows": rows,
        "seed": specs[0].seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with(settings),
    }


def _measured(spec, ascent_steps, data_dir):
    started = time.perf_counter()
    private, found = run_sensitivity(spec, ascent_steps=ascent_steps, data_dir=data_dir)
    return {
        **fields_of(spec, "model path"),
        "engine": private.engine,
        **fields_of(spec, "clipping clip_function expected_batch_size"),
        "physical_batch_size": spec.physical_batch_size or spec.expected_batch_size,
        "augmentation_multiplicity": spec.augmentation_multiplicity,
        **fields_of(found, "add_or_remove_one add_or_remove_one_case replace replace_case"),
        **fields_of(found, "tolerance lots"),
        "guarantee_holds": private.plan.guarantee_holds,
        "bound_holds": found.holds,
        "seconds": round(time.perf_counter() - started, 1),
    }


def describe(row):
    """One measured row in words."""
    verdict = "holds" if row["bound_holds"] else "BROKEN"
    if not row["guarantee_holds"]:
        verdict += ", as expected: NOT private"
    return (
        f"  {row['model']} {row['path']}, {row['engine']}, {row['clipping']} "
        f"{row['clip_function']}, {row['physical_batch_size']} of {row['expected_batch_size']} "
        f"rows at once, K = {row['augmentation_multiplicity']}: "
        f'{row["add_or_remove_one"]:.6f} C by "{row["add_or_remove_one_case"]}": '
        f"{verdict} ({row['seconds']:.0f} s)"
    )
