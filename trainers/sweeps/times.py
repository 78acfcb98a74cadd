"""How long the rest of a sweep takes, judged by the records of what is done."""

import statistics

from trainers.runs.settings import differences
from trainers.sweeps.runs import is_done, run_name


def listing(runs, records, workers=1):
    """Returns, a line for each cell, what is done and what is left, and the time that takes."""
    cells = {}
    for spec in runs:
        cells.setdefault(spec.cell, []).append(spec)
    width = max(map(len, cells))
    lines, left = [], [spec for spec in runs if not is_done(spec, records)]
    for cell, specs in cells.items():
        todo = [spec.seed for spec in specs if spec in left]
        done = [spec.seed for spec in specs if spec not in left]
        line = f"  {cell:<{width}}  done: {_list(done)}  left: {_list(todo)}"
        if todo:
            line += f"  each: {duration(estimate(specs[0], records))}"
        others = sum(r["cell"] == cell and bool(differences(specs[0], r["flags"])) for r in records)
        if others:
            line += f"  ({others} record{'s' * (others > 1)} with other settings)"
        lines.append(line)
    return "\n".join(
        [
            f"{runs[0].experiment}: {len(runs) - len(left)} of {len(runs)} runs done, "
            f"{len(left)} left; seeds of each cell:",
            *lines,
            f"Estimated time with {workers} worker{'s' * (workers > 1)}: "
            f"{duration(time_left(left, records, workers))}.",
        ]
    )


def estimate(spec, records):
    """Returns the seconds that a run will take, or None if no record tells.

    The mean of the same cell's runs with the same settings; without one, that of the experiment's
    runs of the same network, or else of all its runs, each scaled by the rows that went through it.

    Args:
        spec: The run.
        records: Records of its experiment.
    """
    same = [r for r in records if r["cell"] == spec.cell and not differences(spec, r["flags"])]
    network = [r for r in records if r["flags"].get("model") == spec.run.model]
    for known, factor in ((same, lambda _: 1.0), (network, _scale(spec)), (records, _scale(spec))):
        times = [(_whole_seconds(record), factor(record)) for record in known]
        times = [seconds * scale for seconds, scale in times if seconds is not None]
        if times:
            return statistics.mean(times)
    return None


def time_left(left, records, workers, elapsed=None):
    """Returns the seconds until all runs of `left` are done, or None if they are not known.

    Args:
        left: List of specs.
        records: Records of their experiment.
        workers: How many are trained at once.
        elapsed: Dict from `run_name` to the seconds that a run has been training for.
    """
    times = []
    for spec in left:
        seconds = estimate(spec, records)
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


def _scale(spec):
    """Function from another run's record to the quotient of this run's work and that one's."""

    def factor(record):
        work, examples = _work(record), record["num_examples"]
        if not work or not examples:
            return 1.0
        views = getattr(spec.run, "augmentation_multiplicity", 1)
        their_views = record["flags"].get("augmentation_multiplicity", 1)
        updates, batch = spec.run.updates(examples), spec.run.examples_per_update
        return updates * batch * views / (work * their_views)

    return factor


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


def _list(seeds):
    return ",".join(map(str, seeds)) or "-"
