"""What probe and proof make of the faults of others and of later ones, as a table.

`python -m tests.audit.row_independence.table_of_faults` runs both on all of them. What it says of
"before" was recorded by these modules, put into a checkout of commit 171f146.
"""

from tests.audit.row_independence.faults_of_others import FAULTS, probed, proved
from tests.audit.row_independence.later_faults import LATER

ALL = FAULTS | LATER
_ROW = "{:38}{:27}{:9}{:11}{:9}{:9}"


def table():
    """Yields the lines of the table."""
    yield _ROW.format("fault", "class", "before", "first try", "after", "proof")
    seen = {}
    for name, fault in ALL.items():
        seen[name] = fault.first_try or "", probed(fault, batch_size=fault.rows), proved(fault)
        first_try, after, proof = seen[name]
        yield _ROW.format(name, fault.kind, fault.before, first_try, after, proof)
    for names, what in ((FAULTS, "faults of others"), (LATER, "later faults")):
        probe = sum(seen[name][1] == "found" for name in names)
        stopped = sum(seen[name][2] != "PROVED" for name in names)
        sound = sum(ALL[name].is_sound_now for name in names)
        before = sum(ALL[name].before == "found" for name in names)
        yield (
            f"{len(names)} {what}: {before} found by the probe before, {probe} after; {stopped} "
            f"stopped by the proof or refused by the engine, {sound} sound by now"
        )
    first = sum(fault.first_try == "found" for fault in LATER.values())
    yield f"{first} of the later faults were found by the probe at first try"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
