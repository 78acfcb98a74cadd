"""`make_private` with all settings by their own names, as tests change them one at a time."""

import inspect

from tfdpnorm import Clipping, PublicBatch, RunDir, Views, make_plan, make_private

_PLAN = inspect.signature(make_plan).parameters
_ROWS = {"num_examples": 40, "expected_batch_size": 10, "l2_norm_clip": 1.0}
_NOISE = {"noise_multiplier": 1.0, "delta": 1e-5}
# From the name of a setting to the value that holds it, and its name there.
_HELD = {
    "clipping": ("clipping", "grouping"),
    "clip_function": ("clipping", "function"),
    "loss_scale": ("clipping", "loss_scale"),
    "public_batch": ("public_batch", "rows"),
    "pull_back": ("public_batch", "pull_back"),
    "pull_back_weight": ("public_batch", "pull_back_weight"),
    "augmentation": ("views", "augmentation"),
    "augmentation_multiplicity": ("views", "multiplicity"),
    "run_dir": ("run_dir", "path"),
    "resume": ("run_dir", "resume"),
    "checkpoint_every": ("run_dir", "checkpoint_every"),
}
_VALUES = {"clipping": Clipping, "public_batch": PublicBatch, "views": Views, "run_dir": RunDir}


def private_of(model, **settings):
    """Returns `make_private(model, ...)`.

    Args:
        model: As for `make_private`.
        **settings: Arguments of `make_plan`, of `make_private` and of the values that it takes;
            `clipping` is the grouping, `public_batch` the rows, and `run_dir` the path. Without
            them a plan has 40 examples in lots of 10, a clipping norm of 1, noise of 1 and a delta
            of 1e-5; with a budget, no noise and no delta.
    """
    noise = _NOISE if settings.get("budget") is None else {}
    plan, held, rest = {**_ROWS, **noise}, {}, {}
    for name, value in settings.items():
        if name in _HELD:
            holder, field = _HELD[name]
            held.setdefault(holder, {})[field] = value
        elif name in _PLAN:
            plan[name] = value
        else:
            rest[name] = value
    if held.get("public_batch", {}).get("rows") is None:
        held.pop("public_batch", None)
    if held.get("run_dir", {}).get("path") is None:
        held.pop("run_dir", None)
    values = {name: _VALUES[name](**fields) for name, fields in held.items()}
    return make_private(model, make_plan(**plan), **values, **rest)
