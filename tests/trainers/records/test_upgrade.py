"""What older versions wrote says its kind, network and column once it is read."""

import json

import pytest

from trainers.records.store import read_records

OLD = ("kind", "network", "column")


def older(record):
    """A record as it was written before it had a kind."""
    flags = {name: value for name, value in record["flags"].items() if name not in OLD}
    flags["cell"] = record["cell"]
    return {n: v for n, v in record.items() if n not in OLD} | {"flags": flags}


@pytest.mark.parametrize("stddev, kind", [(None, "private"), (0.0, "non_private")])
def test_an_older_record_is_read_as_if_written_now(tmp_path, make_record, stddev, kind):
    flags = {"norm": "layer", "network": "layer-a", "column": "b=1"}
    record = make_record(cell="layer-a/b=1", weight_noise_stddev=stddev, flags=flags)
    (tmp_path / "old.json").write_text(json.dumps(older(record)))
    (read,) = read_records(tmp_path)
    assert read == record and read["kind"] == kind


@pytest.mark.parametrize("cell", [None, 5, ["a/b"], True])
def test_a_cell_that_is_no_name_is_rejected(tmp_path, make_record, cell):
    record = older(make_record()) | {"cell": cell}
    (tmp_path / "odd.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"odd\.json.*a cell named"):
        read_records(tmp_path)
