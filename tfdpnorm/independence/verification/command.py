"""The program `tfdpnorm-verify`: repeats the verification of a run, without TensorFlow.

    tfdpnorm-verify RUN_FOLDER
    tfdpnorm-verify verified-0123456789ab.json.gz

For the folder of a run it checks each file against the SHA-256 in the run's ledger. The exit status
is 0 if all is verified, 1 if something is not, and 2 if it cannot be read.
"""

import argparse
import pathlib
import sys

from tfdpnorm.independence.verification import certificate
from tfdpnorm.independence.verification.claims import verify
from tfdpnorm.privacy import journal


def main(arguments=None):
    """Runs the program; returns its exit status."""
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(
        "tfdpnorm-verify",
        description="\n".join(lines[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", help="the folder of a run, or the file of a certificate")
    path = pathlib.Path(parser.parse_args(arguments).path)
    try:
        known = _in_ledger(path) if path.is_dir() else {path: None}
        outcomes = [_outcome(file, sha256) for file, sha256 in known.items()]
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for file, (words, _) in zip(known, outcomes, strict=True):
        print(f"{file.name}: {words}")
    return 0 if all(is_verified for _, is_verified in outcomes) else 1


def _in_ledger(folder):
    """The certificates that the ledger of a run names: dict from file to SHA-256."""
    _, lines = journal.read_journal(folder / "ledger.jsonl")
    named = [line["fields"] for line in lines if line.get("code") == "certificate"]
    found = {folder / fields["file"]: fields["sha256"] for fields in named}
    if not found:
        raise ValueError(
            f"The ledger in {folder} names no certificate. Runs without verification have none, "
            "nor have searches and runs of earlier versions."
        )
    return found


def _outcome(file, sha256):
    """Words for what a file shows, and whether all is verified."""
    data = file.read_bytes()
    found = certificate.digest(data)
    if sha256 not in (None, found):
        return f"changed: expected the SHA-256 {sha256}, got {found}", False
    question = certificate.decode(data)
    proof = verify(question)
    if not proof.holds:
        return f"NOT VERIFIED: {proof.obstacle} (SHA-256 {found})", False
    what = f"{len(proof.claims)} claims on {proof.operations} operations"
    rows = f"physical batches of {question.examples} rows"
    return f"verified: {what}, for {rows} (SHA-256 {found})", True


if __name__ == "__main__":
    sys.exit(main())
