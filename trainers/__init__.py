"""Flag-driven training programs, one per experiment: `python -m trainers.davody_dp --help`."""

import importlib.util

_NEEDED = ("absl", "keras_tuner", "matplotlib", "sklearn", "tensorflow_datasets")

if _missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
    raise ImportError(
        f"The trainers need {', '.join(_missing)}, not installed here: pip install -e '.[trainers]'"
    )
