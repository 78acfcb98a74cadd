"""A cell of an older record that is no name is rejected; kept records have the rest."""

import json

import pytest

from trainers.records.store import read_records

OLD = ("kind", "network", "column")


def older(record):
    """A record as it was written before it had a kind."""
    flags = {name: value for name, value in record["flags"].items() if name not in OLD}
    flags["cell"] = record["cell"]
    return {n: v for n, v in record.items() if n not in OLD} | {"flags": flags}


@pytest.mark.parametrize("cell", [None, 5, ["a/b"], True])
def test_a_cell_that_is_no_name_is_rejected(tmp_path, make_record, cell):
    record = older(make_record()) | {"cell": cell}
    (tmp_path / "odd.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"odd\.json.*a cell named"):
        read_records(tmp_path)
