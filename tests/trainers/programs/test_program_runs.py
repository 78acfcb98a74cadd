"""The programs at work: a dry run, a record, the table made from it, and the demonstration."""

import re

import pytest

from trainers import demo
from trainers.davody import cells as davody
from trainers.records.store import read_records
from trainers.runs import private

SMALL = (
    "--dataset=digits",
    "--max_examples=300",
    "--expected_batch_size=32",
    "--steps=2",
    "--engine=book_keeping",
    "--public_batch_size=16",
)


@pytest.mark.slow
def test_the_demo_shows_its_runs_and_states_what_holds(main, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DIGITS", ("none", "public_batch-synthetic"))
    ours = davody.spec
    small = dict(
        max_examples=300, expected_batch_size=32, engine="book_keeping", public_batch_size=16
    )
    monkeypatch.setattr(davody, "spec", lambda *a, **values: ours(*a, **{**values, **small}))
    result = main("demo", "--steps=2", "--epsilon=2", "--seed=1", f"--output_dir={tmp_path}")
    assert result.code == 0 and result.err == ""
    records = read_records(tmp_path)
    cells = ["digits-none/eps=2", "digits-public_batch-synthetic/eps=2"]
    assert [r["cell"] for r in records] == cells
    assert all(r["guarantee_holds"] and r["epsilon"] <= 2.0 and r["seed"] == 1 for r in records)
    assert len({r["num_examples"] for r in records}) == 1
    for part in (
        "DIGITS: 300 private images",
        "are synthetic",
        "guarantee holds",
        "(epsilon, delta)-differential privacy",
        "\nNot covered\n",
        "How to check it: tfdpnorm-epsilon --ledger=ledger.jsonl",
    ):
        assert part in result.out
    for record in records:
        assert re.search(
            rf"^{record['cell']} .*{record['test_accuracy']:.2f}.* yes$", result.out, re.MULTILINE
        )
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "none-run1" / "privacy_statement.json").exists()


def test_training_never_begins_before_the_folder_is_there(main, tmp_path, monkeypatch):
    monkeypatch.setattr(private, "build_private", lambda *_: pytest.fail("began"))
    (tmp_path / "file").write_text("")
    result = main("davody_dp", *SMALL, "--epsilon=1", f"--output_dir={tmp_path / 'file' / 'sub'}")
    assert result.code == 2 and "output_dir" in result.err


def test_accountants_are_compared_for_given_noise(main):
    flags = ["--sampling_rate=0.05", "--updates=2000", "--noise_multiplier=5.94"]
    result = main("ermis_accountants", *flags)
    lines = [line.strip("| ").split(" | ") for line in result.out.strip().splitlines()[2:]]
    assert result.code == 0 and len(lines) == 8
    assert ["add/remove", "pld", "1.477", "yes"] in lines
    # "ac" needs a noise ratio of 5.84, and has half of 5.94 where an example is replaced.
    claims = [line[:2] for line in lines if line[3] != "yes"]
    assert claims == [["add/remove", "zcdp"], ["replace one", "ac"], ["replace one", "zcdp"]]
    assert all(line[3] == "yes" or line[3].startswith("NO GUARANTEE: ") for line in lines)
