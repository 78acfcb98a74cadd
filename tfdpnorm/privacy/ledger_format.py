"""The lines of a ledger file: how they are written, and what they have to be to be read.

One JSON object a line. The first is the header, with the plan and the settings of the run; each
other one is an entry of `PrivacyLedger`. Every line has its number, and ends with a checksum over
its own text and the checksum of the line before (SHA-256, its first 128 bits). So a changed,
removed, inserted or moved line is noticed.

**It is a checksum, not a signature.** It guards against accidents and careless edits: somebody who
rewrites the whole file can make all checksums right.
"""

import dataclasses
import hashlib
import json
import math
import re

from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.plan import PrivacyPlan

NO_CHECKSUM = "0" * 32  # What the first line takes for the checksum of the line before.

_FORMAT, _VERSION = "tfdpnorm-ledger", 2
_LINE = re.compile(rb'(\{"line":[0-9]+,[^\n]*),"sum":"([0-9a-f]{32})"\}')


class LedgerCorruptError(ValueError):
    """A ledger file is not what was written."""


def corrupt(path, number, what):
    """Returns the error for a file `path` that has `what` in line `number`."""
    return LedgerCorruptError(
        f"Expected {path} to be a ledger as it was written, got {what} in line {number}. "
        "Bring back a copy of the file: what was spent cannot be known without it."
    )


def encode_line(number, entry, before):
    """Returns line `number` as bytes, with its end.

    Args:
        number: Of the line, from 1.
        entry: Dict of what the line says; plain values by name.
        before: Checksum of the line before, 32 characters; `NO_CHECKSUM` for the first.
    """
    text = json.dumps({"line": number, **entry}, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{text},"sum":"{checksum(before, text.encode())}"}}\n'.encode()


def decode_line(path, number, line, before):
    """Returns the entry in `line`, bytes without an end; the other arguments as in `encode_line`.

    Raises:
        LedgerCorruptError: if the line is not what was written there.
    """
    parts = _LINE.fullmatch(line)
    if parts is None:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise corrupt(path, number, "bytes that are not UTF-8 text") from None
        raise corrupt(path, number, "no entry of a ledger")
    if checksum(before, parts[1]) != parts[2].decode():
        raise corrupt(path, number, "a wrong checksum: it, or the line before it, is another one")
    try:
        entry = json.loads(line)
        if entry.pop("line") != number:
            raise ValueError
    except (ValueError, RecursionError):
        raise corrupt(path, number, "another line number, or no JSON") from None
    del entry["sum"]
    return entry


def checksum(before, text):
    """Returns the checksum of a line, 32 characters, from that `before` it and its own bytes."""
    return hashlib.sha256(before.encode() + text).hexdigest()[:32]


def checksum_in(line):
    """Returns the checksum that a whole line, bytes with or without its end, ends with."""
    return _LINE.match(line)[2].decode()


def split_lines(path, data):
    """Splits what is in a file.

    Returns:
        (lines, rest): the whole lines without their ends, a list of bytes, at least one; and what
        follows the last end, empty unless a writer died.

    Raises:
        LedgerCorruptError: if there is no whole line.
    """
    *lines, rest = data.split(b"\n")
    if not lines:
        raise corrupt(path, 1, "no whole header" if data else "an empty file")
    return lines, rest


def check_torn(path, number, rest):
    """Refuses a `rest`, bytes, that is not the beginning of line `number`.

    Raises:
        LedgerCorruptError: if it is not.
    """
    text = rest.rstrip(b"\0")
    begin = b'{"line":%d,"kind":"' % number
    is_text = all(32 <= byte < 127 for byte in text)
    begins = text.startswith(begin) or begin.startswith(text)
    whole = _LINE.match(text)
    if not is_text or not begins or (whole and whole.end() != len(text)):
        raise corrupt(path, number, "bytes that are no beginning of a line")


def encode_header(plan, settings):
    """Returns the entry of the first line, a dict."""
    return {
        "kind": "header",
        "format": _FORMAT,
        "version": _VERSION,
        "plan": plan_fields(plan),
        "settings": settings,
    }


def decode_header(path, header):
    """Returns (plan, settings) from the entry of the first line.

    Raises:
        LedgerCorruptError: if it is no header, or has no valid plan or settings.
    """
    if (header.get("kind"), header.get("format")) != ("header", _FORMAT):
        raise corrupt(path, 1, "no header")
    if header.get("version") != _VERSION:
        raise LedgerCorruptError(
            f"Expected {path} to have version {_VERSION} of the format, got "
            f"{header.get('version')!r}. Read it, and resume its run, with the release that wrote "
            "it."
        )
    try:
        fields = {n: math.inf if v == "inf" else v for n, v in header["plan"].items()}
        plan, settings = PrivacyPlan(**fields), header["settings"]
        PrivacyLedger(plan, settings)
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise corrupt(path, 1, f"a header without a valid plan ({error})") from error
    return plan, settings


def plan_fields(plan):
    """Returns the fields of a plan by name, a dict, with "inf" for what JSON has no number for."""
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    return {name: "inf" if value == math.inf else value for name, value in fields.items()}
