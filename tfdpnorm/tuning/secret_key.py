"""The secret key of a search: a file that only its owner can read."""

import os
import secrets

from tfdpnorm import files

NAME = "secret.key"
_BYTES = 32


def read_key(folder):
    """Returns the key in a folder, or None if there is none that is whole."""
    try:
        key = bytes.fromhex((folder / NAME).read_text())
    except (OSError, ValueError):
        return None
    return key if len(key) == _BYTES else None


def new_key(folder):
    """Draws a key, writes it to a folder in place of any other, and returns it.

    Raises:
        OSError: if it cannot be written.
    """
    key, file = secrets.token_bytes(_BYTES), folder / NAME
    try:
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(key.hex())
    except OSError as error:
        raise OSError(
            f"Cannot write the secret key of the search to {file}: {files.reason(error)}. Remove "
            "what is there."
        ) from error
    files.flush(file)
    files.flush(folder)
    return key


def delete_key(folder):
    """Deletes the key of a folder, if there is one."""
    (folder / NAME).unlink(missing_ok=True)
