"""Real data, where it is: TFDS_DATA_DIR, else a folder beside the repository."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def tfds_dir():
    """Returns a function from a set's name to a folder in which it is prepared, or skips."""
    beside = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tfds"

    def find(name):
        candidates = (
            [pathlib.Path(os.environ["TFDS_DATA_DIR"])] if os.environ.get("TFDS_DATA_DIR") else []
        )
        for folder in [*candidates, beside]:
            if any(folder.glob(f"{name}/*/dataset_info.json")):
                return folder
        pytest.skip(f"{name} is neither in TFDS_DATA_DIR nor in ../shared/data/tfds")

    return find
