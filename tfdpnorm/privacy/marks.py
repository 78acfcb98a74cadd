"""Marks in the files of models that were trained privately: what was spent on their weights.

Whoever trains such a file further spends more on the same weights, and both epsilons add up for
the examples that both runs saw. A mark says so in the file itself, and lists digests of the weights
that were trained: a copy, or a part, of the model is known again. Weights that the run left as an
earlier one had trained them are listed beside what is known of that one, so that each file of a
chain of runs names all that its weights are of.

**A mark guards against mistakes.** Files of weights alone, and files that something else than this
library has loaded, are not noticed.
"""

import hashlib
import json
import pathlib
import re
import zipfile

import numpy as np

from tfdpnorm import files
from tfdpnorm.privacy.rounding import ceil_text

_NAME = "tfdpnorm_privacy.json"
_EXTRA = "assets.extra"  # of a SavedModel
_LONGEST_COMMENT = 2**16 - 1  # bytes, of a ZIP archive; JSON is ASCII
_FEWEST_DIFFERENT = 4  # numbers, of all weights together if each is smaller than that
_SMALLEST = 8  # numbers; a weight of fewer, or of equal ones, tells nothing of where it is from
_RUN = re.compile("which the private run ([0-9a-f]{12}) trained")  # in what is said of a mark

# What the marks say that were read in this process, by the digests of weights.
_said = {}
# What is said of weights that were trained in this process, likewise.
_met = {}


def mark_of(ledger, trained, *, saved=(), foreign=()):
    """Returns the mark of a private run, a dict that JSON can hold.

    Args:
        ledger: Its `PrivacyLedger`.
        trained: Arrays of the weights that it trained, or that were computed from such.
        saved: Arrays of all weights of the model that the mark is for.
        foreign: Sentences on weights from elsewhere that the ledger could not take.
    """
    holds = ledger.guarantee_holds
    own = set(weight_digests(trained))
    return {
        "epsilon": ledger.epsilon() if holds else None,
        "whole_plan_epsilon": ledger.whole_plan_epsilon() if holds else None,
        "validation_epsilon": ledger.whole_plan_validation_epsilon() if holds else None,
        "delta": ledger.plan.delta,
        "num_examples": ledger.plan.num_examples,
        "updates": ledger.updates,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "excluded": list(ledger.excluded),
        "before": list(_once((*ledger.foreign, *foreign))),
        "weights": sorted(own),
        "earlier": _by_what_is_said(
            {digest: said for digest, said in _known(saved).items() if digest not in own}
        ),
    }


def write_mark(path, mark):
    """Puts a mark into a saved model: a `.keras` file, an HDF5 file, or the folder of a SavedModel.

    Raises:
        OSError: if it cannot be written.
    """
    path, text = pathlib.Path(path), json.dumps(mark)
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
        import h5py  # Only here: most marks are in other files.

        with h5py.File(path, "a") as file:
            file.attrs[_NAME] = text


def read_mark(path):
    """Returns the mark of a saved model, and remembers its weights; None if it has none."""
    text = _text(pathlib.Path(path))
    if text is None:
        return None
    mark = json.loads(text)
    for part in mark.get("earlier", ()):  # Marks of older versions have none.
        _add(_said, part["weights"], part["said"])
    _add(_said, mark["weights"], (*mark["before"], _sentence(pathlib.Path(path).name, mark)))
    return mark


def remember(digests, sentences):
    """Remembers what is to be said of weights if they are met again, where no mark says more.

    Args:
        digests: As `weight_digests` gives them.
        sentences: For `said_of`.
    """
    _add(_met, digests, sentences)


def said_of(weights):
    """Returns what is known in this process of weights, a tuple of sentences.

    Args:
        weights: Arrays.
    """
    return _once(sentence for said in _known(weights).values() for sentence in said)


def weight_digests(weights):
    """Returns the digests that weights are known by, a list; some tell nothing and have none.

    Where all of them are small, as those of a linear model of a few columns, they have one
    together.

    Args:
        weights: Arrays.
    """
    weights = [np.ascontiguousarray(array) for array in weights]
    digests = [_digest(array) for array in weights if _tells(array)]
    return digests or _of_all([array for array in weights if array.dtype.kind == "f"])


def _known(weights):
    """What is known of weights, by digest; of those alone of which something is, in their order."""
    digests = weight_digests(weights) if _said or _met else ()
    # Weight by weight: one may be as a file had it, and the next one trained since.
    known = {digest: _said.get(digest) or _met.get(digest) for digest in digests}
    return {digest: said for digest, said in known.items() if said}


def _add(table, digests, sentences):
    for digest in digests:
        table[digest] = _once((*table.get(digest, ()), *sentences))


def _once(sentences):
    """Sentences without repetition: the files of one run may have names of their own."""
    first = {}
    for sentence in sentences:
        run = _RUN.search(sentence)
        first.setdefault(run[1] if run else sentence, sentence)
    return tuple(first.values())


def _by_what_is_said(known):
    """What is known by digest as a list for JSON, the same sentences once."""
    parts = {}
    for digest, said in known.items():
        parts.setdefault(said, []).append(digest)
    return [{"said": list(said), "weights": sorted(digests)} for said, digests in parts.items()]


def _text(path):
    if path.is_dir():
        file = path / _EXTRA / _NAME
        return file.read_text("utf-8") if file.exists() else None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if _NAME in archive.namelist():
                return archive.read(_NAME).decode()
            return archive.comment.decode() if _is_mark(archive.comment) else None
    import h5py

    if not h5py.is_hdf5(path):
        return None
    with h5py.File(path, "r") as file:
        return file.attrs.get(_NAME)


def _is_mark(comment):
    try:
        return "weights" in json.loads(comment)
    except ValueError:  # somebody else's
        return False


def _sentence(name, mark):
    of = f"{mark['updates']} updates on {mark['num_examples']} examples"
    # By the digests that the file shows anyway: all files of a run at one time have them.
    run = hashlib.sha256(json.dumps(mark["weights"]).encode()).hexdigest()[:12]
    first = (
        f"Weights that come from elsewhere: they are of {name}, which the private run {run} trained"
        f" by {of}"
    )
    if mark["epsilon"] is None:
        return f"{first}, without a guarantee: {'; '.join(mark['no_guarantee_because'])}."
    sentence = (
        f"{first}, to epsilon = {ceil_text(mark['epsilon'])} at delta = {mark['delta']!r}. For an "
        "example that both runs trained on, the two epsilons add up, and so do the two deltas; the "
        "epsilon above is that of this run alone."
    )
    # Marks of older versions have none of these.
    whole, of_answers = mark.get("whole_plan_epsilon"), mark.get("validation_epsilon")
    if whole is not None and whole > mark["epsilon"]:
        sentence += (
            " If the decision to end that run before its plan looked at the model or at private "
            f"data, take the epsilon of its whole plan instead: {ceil_text(whole)}."
        )
    if of_answers:
        sentence += (
            f" Its private validation examples have epsilon = {ceil_text(of_answers)} of their "
            "own, which adds up likewise."
        )
    left_out = " ".join(mark.get("excluded", ()))
    return f"{sentence} What that run does not cover: {left_out}" if left_out else sentence


def _tells(array):
    return array.dtype.kind == "f" and array.size >= _SMALLEST and np.ptp(array) != 0


def _of_all(arrays):
    """The digest of small weights together, unless they are as plain as initial ones are."""
    numbers = np.concatenate([array.ravel() for array in arrays]) if arrays else np.zeros(0)
    return [_digest(numbers)] if len(np.unique(numbers)) >= _FEWEST_DIFFERENT else []


def _digest(array):
    """Digits that the numbers of a weight decide."""
    return hashlib.sha256(str(array.shape).encode() + array.tobytes()).hexdigest()[:24]
