"""Certificates: what they hold, that they are verified again, and that an edited one fails."""

import gzip
import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tests.independence.verification.graphs_by_hand import Made, function
from tfdpnorm.independence import verify
from tfdpnorm.independence.verification import certificate
from tfdpnorm.independence.verification.command import main

layers = keras.layers


def fitted(folder, *inner):
    model = keras.Sequential([keras.Input((6, 4)), *inner, layers.Flatten(), layers.Dense(3)])
    private = tfdpnorm.make_private(
        model,
        tfdpnorm.make_plan(
            num_examples=40,
            expected_batch_size=10,
            steps=2,
            l2_norm_clip=1.0,
            noise_multiplier=1.0,
            delta=1e-3,
        ),
        run_dir=folder,
    )
    private.compile(keras.optimizers.SGD(0.1), "mse")
    private.fit(np.ones((40, 6, 4), np.float32), np.zeros((40, 3), np.float32), verbose=0)
    private.ledger.close()
    return private


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run with a loop and a branch, and its private model."""
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, fitted(
        folder, layers.LSTM(5, return_sequences=True), layers.LayerNormalization()
    )


def certificates(folder):
    return sorted(folder.glob("verified-*.json.gz"))


def edited(data, change):
    content = json.loads(gzip.decompress(data))
    change(content)
    return gzip.compress(json.dumps(content).encode())


def test_a_run_keeps_what_was_verified(run, capsys):
    folder, private = run
    files = certificates(folder)
    assert files and main([str(folder)]) == 0
    said, statement = capsys.readouterr().out, " ".join(private.privacy_statement().split())
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert digest in said and digest in statement and file.name in statement
        assert main([str(file)]) == 0


def test_it_is_verified_without_tensorflow(run):
    folder, _ = run
    code = (
        "import sys\n"
        "for name in ('tensorflow', 'keras', 'scipy', 'dp_accounting'): sys.modules[name] = None\n"
        "from tfdpnorm.independence.verification.command import main\n"
        f"sys.exit(main([{str(folder)!r}]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_what_is_read_again_is_what_was_asked(run):
    folder, _ = run
    for file in certificates(folder):
        question = certificate.decode(file.read_bytes())
        proof = verify(question)
        assert proof.holds and len(proof.claims) == len(question.asked)
        again = certificate.decode(certificate.encode(question, proof.constants_read))
        assert verify(again) == proof


def test_it_holds_no_constant_that_no_rule_reads():
    made = Made()
    x = made.input()
    secret = made.constant([1234567, 7, 7, 7])
    axes = made.constant([1])
    as_float = made.op("Cast", secret, shapes=((4,),))
    out = made.op("Sum", made.op("AddV2", x, as_float), axes, shapes=((3,),), keep_dims=False)
    proof = made.asked(out)
    data = certificate.encode(proof.question, proof.constants_read)
    assert proof.holds and b"1234567" not in gzip.decompress(data)
    assert verify(certificate.decode(data)) == proof


def _axis(content):
    """Lets the last reduction go over the examples."""
    for graph in reversed(content["graphs"]):
        for op in graph["operations"]:
            if op[0] == "Const" and op[8] and op[8][1] == [1] and op[8][2] == [1]:
                op[8][2] = [0]


def _with_another_operation(content):
    content["graphs"][-1]["operations"][-1][0] = "NoSuchOperation"


def _with_fewer_claims(content):
    content["asked"] = content["asked"][:1]


def _with_more_examples(content):
    content["examples"] += 1


EDITS = [_with_another_operation, _with_fewer_claims, _with_more_examples]


@each("edit", EDITS)
def test_an_edited_file_is_noticed_by_the_ledger(edit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("edited") / "run"
    fitted(folder)
    (file, *_) = certificates(folder)
    file.write_bytes(edited(file.read_bytes(), edit))
    assert main([str(folder)]) == 1


def test_an_edited_graph_is_not_verified(tmp_path, capsys):
    made = Made()
    x, axes = made.input(), made.constant([1])
    called = function(
        lambda inner, x, axes: inner.op("Sum", x, axes, shapes=((None,),), keep_dims=False),
        (3, 4),
        (1,),
    )
    out = made.op("PartitionedCall", x, axes, shapes=((None,),), functions=[("f", called)])
    proof = made.asked(out)
    assert proof.holds
    file = tmp_path / "verified.json.gz"
    data = certificate.encode(proof.question, proof.constants_read)
    file.write_bytes(data)
    assert main([str(file)]) == 0
    file.write_bytes(edited(data, _axis))
    assert main([str(file)]) == 1 and "NOT VERIFIED" in capsys.readouterr().out


@each(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b"no json"),
        gzip.compress(b"[]"),
        gzip.compress(b'{"format": 1}'),
        gzip.compress(b'{"format": 9}'),
    ],
)
def test_other_files_are_told(data, tmp_path_factory):
    file = tmp_path_factory.mktemp("other") / "file"
    file.write_bytes(data)
    assert main([str(file)]) == 2
    with pytest.raises(certificate.CertificateError):
        certificate.decode(data)


def test_a_folder_without_a_ledger_or_file_is_told(tmp_path):
    assert main([str(tmp_path)]) == 2 and main([str(tmp_path / "absent")]) == 2
