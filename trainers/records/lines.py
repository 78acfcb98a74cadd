"""Records of which each is a line of JSON in one file."""

import json


def read(path):
    """Returns the list of records in a file; none if it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_missing(path, wanted, make):
    """Makes the runs that a file has no record of, and adds a line for each when it ends.

    `wanted` is a list of dicts: fields of records, in the order of the arguments of `make`, which
    returns a record.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    done = read(path)
    for settings in wanted:
        if any(settings.items() <= record.items() for record in done):
            continue
        record = make(*settings.values())
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(*settings.values(), round(record["test_accuracy"], 1), flush=True)
