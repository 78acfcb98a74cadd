"""The program that measures landscapes: two files go in, records, table and plots come out."""

import pytest
from tensorflow import keras

from tfdpnorm.layers import ScaleNorm
from trainers.records.fields import LANDSCAPE_FIELDS
from trainers.records.store import read_records

FLAGS = (
    "--dataset=digits",
    "--rows=16",
    "--lanczos_steps=4",
    "--max_products=4",
    "--tolerance=0.5",
)


def saved(path, scale_norm, classes=10):
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(2, 3, padding="same", activation="tanh")(inputs)
    added = ScaleNorm(groups=2) if scale_norm else keras.layers.Add()
    x = added([keras.layers.Conv2D(2, 3, padding="same")(x), x])
    outputs = keras.layers.Dense(classes)(keras.layers.Flatten()(x))
    keras.Model(inputs, outputs).save(path)
    return path


def test_one_network_after_the_other(main, tmp_path):
    out = tmp_path / "out"
    given = {True: saved(tmp_path / "a.keras", True), False: saved(tmp_path / "b.keras", False)}
    first = main("klause_landscape", *FLAGS, f"--output_dir={out}", f"--with_scale_norm={given[1]}")
    assert first.code == 0, first.err
    assert "No table yet" in first.out and "has no record of the network 'without'" in first.out
    last = main(
        "klause_landscape", *FLAGS, f"--output_dir={out}", f"--without_scale_norm={given[0]}"
    )
    assert last.code == 0, last.err
    assert {path.name for path in out.iterdir() if path.suffix != ".json"} == {
        "landscape.md",
        "spectra.png",
        "activations.png",
    }
    for record in read_records(out, fields=LANDSCAPE_FIELDS):
        (block,) = record["activations"].values()
        assert (abs(block["output"]["mean"]) < 1e-2) == (record["cell"] == "with ScaleNorm")
    assert "may be compared with each other, not with the paper" in last.out


@pytest.mark.parametrize(
    "scale_norm, classes, flag, message",
    [
        (False, 10, "with", "a network with ScaleNorm in .* 1 residual blocks, 0 of them with it"),
        (True, 10, "without", "a network without ScaleNorm in .* 1 of them with it. Are the two"),
        (
            True,
            7,
            "with",
            "Expected a network with 10 logits, as digits has classes, got .* with 7",
        ),
    ],
)
def test_a_file_of_another_network_is_rejected(main, tmp_path, scale_norm, classes, flag, message):
    path = saved(tmp_path / "a.keras", scale_norm, classes)
    refused = main(
        "klause_landscape", *FLAGS, f"--output_dir={tmp_path}", f"--{flag}_scale_norm={path}"
    )
    assert refused.code == 2 and "Traceback" not in refused.err
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(refused.err)
    assert not list(tmp_path.glob("*.json"))
