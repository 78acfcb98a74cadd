"""Privacy metadata in the files of models: what was spent on their weights.

Further training of such weights spends more on them, and both epsilons add up for the examples that
both runs saw. So a file lists digests of the weights that a private run trained, with the caveat of
a run that begins with them. A copy, or a part, of the model is known again. Weights that the run
left as an earlier one had trained them have the caveat of that one.

**Metadata guard against mistakes.** Files of weights alone, and files that something else than this
library has loaded, are not noticed.
"""

import functools
import hashlib
import json
import math
import pathlib
import zipfile

import numpy as np

from tfdpnorm import files
from tfdpnorm.privacy.caveats import Caveat, caveat

_NAME = "tfdpnorm_privacy.json"
_EXTRA = "assets.extra"  # of a SavedModel
_LONGEST_COMMENT = 2**16 - 1  # bytes, of a ZIP archive; JSON is ASCII
_FEWEST_DIFFERENT = 4  # numbers, of all weights together if each is smaller than that
_SMALLEST = 8  # numbers; a weight of fewer, or of equal ones, does not show its origin

_origins = {}  # What is known in this process of weights: tuples of origins, by digest.


class PrivateRun:
    """A private run of this process as the origin of weights.

    Args:
        ledger: Its `PrivacyLedger`, whose present state counts.
    """

    def __init__(self, ledger):
        self._ledger = ledger.with_caveats(())  # a copy, of the present state

    @functools.cached_property
    def caveat(self):
        """The `Caveat` for a run that begins with weights of this one."""
        ledger, state = self._ledger, self._ledger.state
        values = {
            "epsilon": ledger.epsilon(),
            "whole_plan_epsilon": ledger.epsilon(whole_plan=True),
            "validation_epsilon": ledger.validation_epsilon(whole_plan=True),
        }
        return caveat(
            "private_run",
            run=ledger.run_id,
            file=None,
            updates=state.updates,
            unit=state.plan.unit,
            num_examples=state.plan.num_examples,
            delta=state.plan.delta,
            reasons="; ".join(ledger.no_guarantee_because),
            not_covered=" ".join(state.sentences("not_covered")),
            **{name: value if math.isfinite(value) else None for name, value in values.items()},
        )


def metadata_of(ledger, trained, saved):
    """Returns the metadata of a model that the run of a ledger trained, a dict that JSON can hold.

    `trained` are the digests of the weights that it trained, `saved` all arrays of the file.
    """
    known = {digest: _caveats(_origins.get(digest, ())) for digest in weight_digests(saved)}
    own = _caveats(origins_by_run(ledger))
    groups = {}
    for digest, caveats in {**known, **dict.fromkeys(trained, own)}.items():
        fields = json.dumps([vars(each) for each in caveats])
        groups.setdefault(fields, []).append(digest)
    return {
        "origins": [
            {"caveats": json.loads(fields), "weights": sorted(digests)}
            for fields, digests in groups.items()
            if fields != "[]" and digests
        ]
    }


def write_metadata(path, metadata):
    """Puts metadata into a model's `.keras` file, HDF5 file, or folder of a SavedModel.

    Files of other formats, such as ONNX, stay as they are: Keras trains none of them further.

    Raises:
        OSError: if it cannot be written.
    """
    path, text = pathlib.Path(path), json.dumps(metadata)
    if path.is_dir():
        files.write_whole(files.make_folder(path / _EXTRA, "the model's folder") / _NAME, text)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path, "a") as archive:
            # With one member more, Keras also looks for assets, and Python 3.12.1 then reads the
            # weights from a wrong place. A comment has room for the digests of 2,000 weights.
            if len(text) <= _LONGEST_COMMENT:
                archive.comment = text.encode()
            else:
                archive.writestr(_NAME, text)
    else:
        import h5py  # Only here: most metadata are in other files.

        if h5py.is_hdf5(path):
            with h5py.File(path, "a") as file:
                file.attrs[_NAME] = text


def read_metadata(path):
    """Returns the metadata of a saved model, and remembers its weights; None if it has none.

    Raises:
        ValueError: if they are those of an earlier release.
    """
    path = pathlib.Path(path)
    text = _text(path)
    if text is None:
        return None
    metadata = json.loads(text)
    if "origins" not in metadata:
        raise ValueError(
            f"Expected privacy metadata of this release in {path}, got those of an earlier one. "
            "Load the file with the release that wrote it: the metadata record the budget spent on "
            "the weights."
        )
    for origin in metadata["origins"]:
        caveats = [Caveat(**each) for each in origin["caveats"]]
        for i, each in enumerate(caveats):
            if each.fields.get("file", "") is None:
                caveats[i] = caveat(each.code, **{**each.fields, "file": path.name})
        remember(origin["weights"], caveats)
    return metadata


def origins_by_run(ledger):
    """Returns the origins of weights that a run trained: what it began with, and the run itself."""
    known = (each for each in ledger.state.caveats if each.kind == "foreign_weights")
    return (*known, PrivateRun(ledger))


def remember(digests, origins):
    """Remembers for `weight_digests` where they are from: a tuple of `Caveat` and `PrivateRun`."""
    for digest in digests:
        _origins[digest] = (*_origins.get(digest, ()), *origins)


def origins_of(weights):
    """Returns what is known in this process of arrays, a tuple of `Caveat`, each run once."""
    digests = weight_digests(weights) if _origins else ()
    # Weight by weight: one may be as a file had it, and the next one trained since.
    return _caveats(origin for digest in digests for origin in _origins.get(digest, ()))


def weight_digests(weights):
    """Returns the digests that arrays are known by, a list; some tell nothing and have none.

    Where all of them are small, as those of a linear model of a few columns, they have one
    together.
    """
    weights = [np.ascontiguousarray(array) for array in weights if array.dtype.kind == "f"]
    digests = [_digest(a) for a in weights if a.size >= _SMALLEST and np.ptp(a) != 0]
    if digests or not weights:
        return digests
    # Unless they are as plain as initial ones are.
    numbers = np.concatenate([array.ravel() for array in weights])
    return [_digest(numbers)] if len(np.unique(numbers)) >= _FEWEST_DIFFERENT else []


def _caveats(origins):
    """Origins as caveats, without repetition: of a run the one of most updates."""
    found = {}
    for origin in origins:
        each = origin if isinstance(origin, Caveat) else origin.caveat
        key = each.fields.get("run", each.sentence)
        if key not in found or _rank(each) > _rank(found[key]):
            found[key] = each
    return tuple(found.values())


def _rank(each):
    return each.fields.get("updates", 0), each.fields.get("file") is not None


def _text(path):
    if path.is_dir():
        file = path / _EXTRA / _NAME
        return file.read_text("utf-8") if file.exists() else None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if _NAME in archive.namelist():
                return archive.read(_NAME).decode()
            try:
                is_ours = not {"origins", "weights"}.isdisjoint(json.loads(archive.comment))
            except (ValueError, TypeError):  # of another program
                is_ours = False
            return archive.comment.decode() if is_ours else None
    import h5py

    if not h5py.is_hdf5(path):
        return None
    with h5py.File(path, "r") as file:
        return file.attrs.get(_NAME)


def _digest(array):
    return hashlib.sha256(str(array.shape).encode() + array.tobytes()).hexdigest()[:24]
