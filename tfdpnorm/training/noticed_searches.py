"""Searches of Keras Tuner that nobody pays for: noticed in `fit`, and named in statements.

A tuner that trains private models by its own means chooses between trainings of which each ledger
knows one. `tfdpnorm.tuning` has tuners that are accounted, and these are not noticed here.
"""

import os
import pathlib
import weakref

from tfdpnorm.privacy.composition import composed_epsilon
from tfdpnorm.privacy.rounding import ceil_text

_PACKAGE = "keras_tuner"
_searches = weakref.WeakKeyDictionary()  # The `NoticedSearch` of each tuner, while it lives.


class NoticedSearch:
    """The trials of a search: those that this tuner has trained, and the names of all.

    A search goes on where another process, or another tuner in this one, has left it.

    Args:
        tuner: The tuner of Keras Tuner.

    Attributes:
        tuner: Name of its class.
        objective: Name of what its trials are compared by.
        ledgers: List of pairs (trial, `PrivacyLedger`), one for each training.
    """

    def __init__(self, tuner):
        self.tuner = type(tuner).__name__
        # Not the tuner, which would then live as long as it is a key of `_searches`: for ever.
        self._oracle = getattr(tuner, "oracle", None)
        self._folder = getattr(tuner, "project_dir", None)
        objective = getattr(self._oracle, "objective", None)
        self.objective = getattr(objective, "name", "a score")
        self.ledgers = []

    def in_words(self):
        """Returns what the trials have spent together, and that the choice is not covered."""
        seen = list(dict.fromkeys(name for name, _ in self.ledgers))
        unseen = [name for name in self._all_trials() if name not in seen]
        text = f"{self.tuner} chose by {self.objective} between {_listed([*seen, *unseen])}"
        if unseen:
            text += (
                f". What was spent on {_listed(unseen)} is not known here, nor what was spent "
                "elsewhere on the others"
            )
        ledgers = [ledger for _, ledger in self.ledgers]
        deltas = {ledger.plan.delta for ledger in ledgers}
        if len(deltas) == 1 and all(ledger.guarantee_holds for ledger in ledgers):
            (delta,) = deltas
            parts = [part for ledger in ledgers for part in ledger.spent()]
            epsilon = ceil_text(composed_epsilon(parts, delta, "rdp"))
            who = f"{_listed(seen)} alone" if unseen else "they have"
            text += (
                f". If all were trained on the same data, {who} spent epsilon {epsilon} at "
                f"delta {delta!r} together, by Renyi DP"
            )
        return (
            f"{text}. That adds to this epsilon, and none covers a choice by validation data that "
            "are private and not noised."
        )

    def _all_trials(self):
        """The names of all trials, also of those that others have trained in the same folder."""
        # A worker of Keras Tuner's distributed mode asks for trials, and does not have them.
        known = getattr(self._oracle, "trials", ())
        return dict.fromkeys((*known, *_trials_in(self._folder)))


class NoticedTrial:
    """One training of a `NoticedSearch`.

    Args:
        search: `NoticedSearch`.
        name: Of the trial.
    """

    def __init__(self, search, name):
        self._search, self._name = search, name

    def declare(self, ledger, *, validation_is_public):
        """Says in the ledger of the training that it is a trial, and counts it among them."""
        self._search.ledgers.append((self._name, ledger))
        ledger.exclude(
            f"The search that this run was a trial of ({self._search.tuner}, trial {self._name}): "
            "its other trials, and the choice between them. PrivateRandomSearch of tfdpnorm.tuning "
            "has an epsilon that covers both."
        )
        if not validation_is_public:
            ledger.exclude(
                f"The validation data, by whose {self._search.objective} the search chose without "
                "noise: its examples are not protected."
            )

    def in_words(self):
        """Returns the sentence for a model that has the weights of this trial."""
        return f"Trial {self._name} of a search left them. {self._search.in_words()}"


class TrialOfAnotherProcess:
    """A trial whose weights Keras Tuner has kept in a folder.

    Args:
        folder: `pathlib.Path` of the trial, `trial_...` in the folder of its search.
    """

    def __init__(self, folder):
        self._folder = folder

    def in_words(self):
        """As `NoticedTrial`."""
        return (
            f"Trial {self._folder.name.removeprefix('trial_')} of a search of Keras Tuner left "
            f"them, {self._folder.parent.name!r}, with "
            f"{_listed(_trials_in(self._folder.parent))}. What these have "
            "spent is not known here and adds to this epsilon, and none covers a choice by "
            "validation data that are private and not noised."
        )


def trial_with_file(path):
    """Returns the `TrialOfAnotherProcess` whose weights are in a file, or None."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    folder = pathlib.Path(path).absolute().parent
    is_trial = (folder / "trial.json").is_file() and (folder.parent / "oracle.json").is_file()
    return TrialOfAnotherProcess(folder) if is_trial else None


def declare_earlier_searches(ledger):
    """Says in the ledger of a run that is no trial which searches this process has made before it.

    Its settings may be those that a search has found.
    """
    for search in list(_searches.values()):
        ledger.exclude(
            "A search that this process made before, where the settings of this run follow from "
            f"it: {search.in_words()}"
        )


def noticed_trial(callbacks):
    """Returns the `NoticedTrial` that a `fit` with these callbacks is, or None."""
    for callback in callbacks:
        tuner, trial = getattr(callback, "tuner", None), getattr(callback, "trial", None)
        if type(callback).__module__.split(".")[0] == _PACKAGE and None not in (tuner, trial):
            search = _searches.setdefault(tuner, NoticedSearch(tuner))
            return NoticedTrial(search, str(trial.trial_id))
    return None


def _trials_in(folder):
    """The names of the trials that Keras Tuner has written down in the folder of a search."""
    files = pathlib.Path(folder).glob("trial_*/trial.json") if folder else ()
    return [path.parent.name.removeprefix("trial_") for path in files]


def _listed(names):
    # More trials may have longer names: "2", then "03".
    listed = ", ".join(sorted(names, key=lambda name: (len(name), name)))
    return f"trials {listed}" if len(names) > 1 else f"trial {listed}"
