"""The runs of a sweep: which they are, which are done, where each is kept, how long they take."""

import fnmatch
import functools
import math
import pathlib
import statistics

from tfdpnorm import arguments, models
from trainers.data.catalogue import SOURCES, official_size
from trainers.records.store import file_name
from trainers.runs.settings import differences


def select(specs, seeds, patterns=(), first_seed=0):
    """Returns the specs of all runs, seed by seed, so that a stopped sweep has whole tables.

    Each cell has so many seeds, from the first one on. The patterns are names of cells, or
    shell-style patterns of them; empty for all cells.
    """
    arguments.whole("seeds", seeds, at_least=1)
    chosen = [s for s in specs if not patterns or any(_matches(s.cell, p) for p in patterns)]
    for pattern in patterns:
        if not any(_matches(spec.cell, pattern) for spec in specs):
            raise ValueError(
                f"Expected cells to name some of {specs[0].experiment}, got {pattern!r}, which "
                f"matches none of {', '.join(spec.cell for spec in specs)}. Choose some of these."
            )
    return [
        spec.replaced(seed=seed)
        for seed in range(first_seed, first_seed + seeds)
        for spec in chosen
    ]


def is_done(spec, records):
    """Whether one of `records` is of this experiment, cell and seed, with these settings."""
    return any(
        _is_of_cell(record, spec)
        and record["seed"] == spec.seed
        and not differences(spec, record["flags"])
        for record in records
    )


def run_name(spec):
    """A run in words."""
    return f"{spec.cell} seed {spec.seed}"


def run_folder(runs_dir, spec):
    """Path of the folder of a run."""
    return pathlib.Path(runs_dir) / spec.experiment / f"{file_name(spec.cell)}-seed{spec.seed}"


def _is_of_cell(record, spec):
    return record["experiment"] == spec.experiment and record["cell"] == spec.cell


def _matches(cell, pattern):
    return cell == pattern or fnmatch.fnmatchcase(cell, pattern)


# --- how long the rest takes, judged by the records of what is done ---


def listing(runs, records, workers=1, kept=()):
    """Returns, a line for each cell, what is done and what is left, and the time that takes."""
    cells = {}
    for spec in runs:
        cells.setdefault(spec.cell, []).append(spec)
    width = max(map(len, cells))
    lines, left = [], [spec for spec in runs if not is_done(spec, records)]
    for cell, specs in cells.items():
        todo = ", ".join(f"{spec.seed}" for spec in specs if spec in left)
        done = ", ".join(f"{spec.seed}" for spec in specs if spec not in left)
        line = f"  {cell:<{width}}  seeds done: {done or 'none'}; left: {todo or 'none'}"
        if todo:
            line += f"; each: {duration(estimate(specs[0], records, kept))}"
        others = sum(
            _is_of_cell(r, specs[0]) and bool(differences(specs[0], r["flags"])) for r in records
        )
        if others:
            line += f"  ({others} record{'s' * (others > 1)} with other settings)"
        lines.append(line)
    seconds = time_left(left, records, workers, kept=kept)
    by_kept = seconds is not None and time_left(left, records, workers) is None
    source = ", by kept records, perhaps of other machines" if by_kept else ""
    return "\n".join(
        [
            f"{', '.join(dict.fromkeys(spec.experiment for spec in runs))}: "
            f"{len(runs) - len(left)} of {len(runs)} runs done, "
            f"{len(left)} left:",
            *lines,
            f"Estimated time with {workers} worker{'s' * (workers > 1)}: "
            f"{duration(seconds)}{source}.",
        ]
    )


def estimate(spec, records, kept=()):
    """Returns the seconds that a run will take, or None if no record tells.

    The mean of the same cell's runs with the same settings; without one, that of the table's runs
    of the same network on the same data set, or else of the same network, or else of all its runs,
    each scaled by the rows that went through it, by their pixels and by the width of the network.
    Where each row gets its own backward pass through the whole batch, as in Algorithm 1, runs
    without that tell nothing. `kept` records are asked where none of the table's tells.
    """
    if kept:
        seconds = estimate(spec, records)
        return estimate(spec, kept) if seconds is None else seconds
    records = [
        r
        for r in records
        if _is_of_whole_batches(r["flags"]) == _is_of_whole_batches(spec.settings)
    ]
    same = [r for r in records if _is_of_cell(r, spec) and not differences(spec, r["flags"])]
    network = [r for r in records if r["flags"].get("model") == spec.run.model]
    alike = [r for r in network if r["flags"].get("dataset") == spec.run.dataset]
    scale = functools.partial(_scale, spec)
    nearest_first = ((same, lambda _: 1.0), (alike, scale), (network, scale), (records, scale))
    for known, factor in nearest_first:
        times = [(_whole_seconds(record), factor(record)) for record in known]
        times = [seconds * scale for seconds, scale in times if seconds is not None]
        if times:
            return statistics.mean(times)
    return None


def time_left(left, records, workers, elapsed=None, kept=()):
    """Returns the seconds until all runs of `left` are done, or None if they are not known.

    `elapsed` has the seconds that a run has been training for, by its `run_name`.
    """
    times = []
    for spec in left:
        seconds = estimate(spec, records, kept)
        if seconds is None:
            return None
        times.append(max(0.0, seconds - (elapsed or {}).get(run_name(spec), 0.0)))
    # Idle workers do not shorten the last run.
    return max(sum(times) / workers, *times) if times else 0.0


def duration(seconds):
    """Seconds in words; None is "unknown"."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def _is_of_whole_batches(settings):
    return settings.get("statistics") == "lot" and settings.get("norm") == "public_batch"


def _scale(spec, record):
    """The quotient of a run's work and that of another run's record."""
    run, flags, work, examples = spec.run, record["flags"], _work(record), record["num_examples"]
    if not work or not examples:
        return 1.0
    same = flags.get("dataset") == run.dataset and flags.get("max_examples") == run.max_examples
    if not same and run.dataset in SOURCES:
        examples = min(official_size(run.dataset, "train"), run.max_examples or math.inf)
    views = run.augmentation_multiplicity / flags.get("augmentation_multiplicity", 1)
    pixels, their_pixels = _pixels(spec.settings), _pixels(flags)
    size = pixels / their_pixels if pixels and their_pixels else 1.0
    if flags.get("model") == run.model:
        # Channels of a convolution go in and come out.
        size *= (_width(spec.settings) / _width(flags)) ** 2
    return run.updates(examples) * run.examples_per_update * views * size / work


def _pixels(settings):
    """Pixels of an image that a run trains on, or None: for texts, features and unknown sets."""
    if settings.get("trainable") == "head" or settings.get("pretraining_dataset"):
        return None
    shape = None
    if settings.get("image_size"):
        shape = 2 * (settings["image_size"],)
    elif settings.get("dataset") in SOURCES:
        shape = SOURCES[settings["dataset"]].shape
    return shape and shape[0] * shape[1]


def _width(settings):
    """The option of a network for the channels of its layers, or its default; 1 without any."""
    model = settings.get("model")
    defaults = models.options(model) if model in models.names() else {}
    return {**defaults, **dict(settings.get("model_options") or ())}.get("width") or 1


def _work(record):
    """Examples that a recorded run went through, or None."""
    batch = record["expected_batch_size"] or record["flags"].get("batch_size")
    return record["updates"] * batch if record["updates"] and batch else None


def _whole_seconds(record):
    """Seconds of a recorded run, or None if it does not say."""
    if record["resumes"] == 0:
        return record["seconds"]
    # Its seconds are those since it was last resumed; its speed holds for all of it.
    work, speed = _work(record), record["examples_per_second"]
    return work / speed if work and speed else None
