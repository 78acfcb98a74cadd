"""The folder of a search: its secret key, its ledger and its trials; digests of its rows."""

import contextlib
import hashlib
import os
import pathlib
import secrets

import numpy as np
import tensorflow as tf

from tfdpnorm import files
from tfdpnorm.data import PoissonBatches
from tfdpnorm.data.on_demand import ExamplesOnDemand
from tfdpnorm.data.sources import is_source
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy import create_ledger, read_ledger, reopen_ledger
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Finish, Search
from tfdpnorm.privacy.ledger import differences_from
from tfdpnorm.training.resume.run_folder import LEDGER

# --- the secret key: a file that only its owner can read ---

SECRET_KEY = "secret.key"
_BYTES = 32


def new_key(folder):
    """Draws a key, writes it to a folder, replacing any other, and returns it."""
    key, file = secrets.token_bytes(_BYTES), folder / SECRET_KEY
    try:
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(key.hex())
    except OSError as error:
        raise OSError(
            f"Cannot write the secret key of the search to {file}: {files.reason(error)}. Remove "
            "that file or folder."
        ) from error
    files.flush(file)
    files.flush(folder)
    return key


# --- digests of the data on which a search trains and scores ---


def rows_of_search(x, y, validation_data, fit_arguments):
    """Returns all that decides on which examples a search trains and scores, a structure.

    `x` are inputs [N, ...], a structure of them, or `PoissonBatches`; `y` are targets [N, ...], or
    None; `validation_data` is a pair (inputs, targets).
    """
    weights, by_class = (fit_arguments.get(f"{of}_weight") for of in ("sample", "class"))
    person = fit_arguments.get("person")
    if isinstance(x, PoissonBatches) and x.persons is not None:
        person = x.persons.index
    if isinstance(x, PoissonBatches) and x.examples.is_read_on_demand:
        x = x.examples
    elif isinstance(x, PoissonBatches):
        weights = None if (x.sample_weight == 1).all() else x.sample_weight
        x, y = x.x, x.y
    classes = (sorted(by_class.items()),) if by_class else ()
    persons = () if person is None else (person,)
    return x, y, weights, tuple(validation_data), *classes, *persons


def rows_digest(rows, key):
    """Returns a digest, hex digits, that says nothing of the rows to those who do not have the key.

    A digest without a key would let an attacker check guesses of the rows. `rows` is a structure of
    arrays, and of `ExamplesOnDemand`, all of which are read; of others, the type alone counts.
    """
    state = hashlib.blake2b(key=key, digest_size=16)
    for leaf in _leaves(rows):
        is_array = hasattr(leaf, "__array__") or isinstance(leaf, (bool, int, float, str, bytes))
        array = np.asarray(leaf if is_array else type(leaf).__name__)
        state.update(f"{array.dtype.str}{array.shape}".encode())
        if array.dtype.kind == "O":  # texts
            state.update(repr(array.tolist()).encode())
        else:
            array = np.ascontiguousarray(array)
            state.update(array.data if array.dtype.kind in "biuf" else array.tobytes())
    return state.hexdigest()


def _leaves(rows):
    for leaf in tf.nest.flatten(rows):
        if isinstance(leaf, ExamplesOnDemand):
            for block in leaf.blocks():
                yield from tf.nest.flatten(block)
        else:
            yield leaf


def inputs_of(x):
    """Returns the training inputs of a search, to compare rows with; see `rows_of_search`.

    Raises TypeError for a source by itself.
    """
    if is_source(x):
        raise TypeError(
            "Expected arrays or PoissonBatches, got a source by itself. Pass "
            "tfdpnorm.data.poisson_batches(source, expected_batch_size=...)."
        )
    return x.examples.inputs if isinstance(x, PoissonBatches) else x


# --- the folder ---


RUN, WINNER, NOTICE = "run", "winner", "NOT_FOR_RELEASE.txt"
# In the settings of the ledger. Other rows are another search: those that scored one trial may
# train another.
ROWS = "digest of the training and validation rows, their labels and their order"

_NOTICE = (
    "This folder holds the trials of a search that is accounted as releasing the best of them\n"
    "and nothing else: neither weights nor scores of the others, nor how many there were.\n"
    f"Release the content of {WINNER}/, and nothing else.\n"
)


class SearchFolder:
    """Files of a search, from which it can be resumed after being killed.

    `ledger.jsonl` has the plan of the search, and each trial before it begins. `secret.key`, mode
    0600, decides the number of trials and their settings: they are the same after a crash, and a
    folder without it is rejected, since another number would be another search. No one may know it:
    a search whose number of trials is known has no such epsilon.

    Args:
        path: Folder, made if absent.
        search: `tfdpnorm.privacy.search.SearchPlan`.
        plan: `PrivacyPlan` of one of its trials.
        settings: Dict of further settings that must not change.
    """

    def __init__(self, path, search, plan, settings):
        self.path = pathlib.Path(path)
        self._search, self._plan, self._settings = search, plan, settings
        self._key = None
        self.ledger = None

    @contextlib.contextmanager
    def opened(self, rows):
        """Context in which this process, and no other, has the search on `rows_of_search`.

        Raises ValueError if the folder holds another search, one of other rows, or one without its
        secret; BlockingIOError if another process has it.
        """
        files.make_folder(self.path, "the folder of the search")
        exists = (self.path / LEDGER).exists()
        if exists:
            self.check_settings()
        try:
            key = bytes.fromhex((self.path / SECRET_KEY).read_text())
        except (OSError, ValueError):
            key = b""
        self._key = key if len(key) == _BYTES else None  # one that is whole
        if exists and self._key is None:
            raise PrivacyError(
                f"{SECRET_KEY} is missing in {self.path}, whose search has begun: the number of "
                "trials drawn is unknown, and drawing again would be another search. Restore it, "
                "or name another folder; the epsilons of several searches on the same data add up."
            )
        if not exists:
            if any(self.path.glob(f"trial_*/{RUN}")) or self.winner.exists():
                raise PrivacyError(
                    f"{LEDGER} is missing next to the trials in {self.path}: the budget spent is "
                    "unknown. Restore it, or name another folder."
                )
            self._key = new_key(self.path)
        digests = {
            "secret": hashlib.sha256(self._key).hexdigest(),
            ROWS: rows_digest(rows, self._derived("rows")),
        }
        open_ledger = reopen_ledger if exists else create_ledger
        settings = {**self._settings, **digests}
        self.ledger = open_ledger(self.path / LEDGER, self._plan, settings)
        try:
            self.ledger.record(Search(self._search))
            if not self._search.is_composed:
                files.write_whole(self.path / NOTICE, _NOTICE)
            yield self
        finally:
            self.ledger.close()

    def check_settings(self):
        """Raises ValueError, with the differences, if the folder holds another search than this."""
        ledger = read_ledger(self.path / LEDGER)
        # Of the process that opened it.
        kept = {name: ledger.settings[name] for name in ("secret", ROWS)}
        found = differences_from(ledger, self._plan, {**self._settings, **kept})
        search = ledger.state.search
        if not found and search not in (None, self._search):
            found = [f"{search} there and {self._search} here"]
        if found:
            raise PrivacyError(
                f"There is another search in {self.path}: {'; '.join(found)}. Pass directory= or "
                "project_name= (--run_dir) to begin this one in another folder, or restore these "
                "settings to continue that one; the epsilons of several searches on the same data "
                "add up."
            )

    @property
    def has_ended(self):
        """Whether all trials were made, and the winner is known."""
        ledger = self.path / LEDGER
        return ledger.exists() and read_ledger(ledger).state.is_finished

    def finish(self, best):
        """Ends the search for good, and deletes its secret.

        `best` identifies the trial to be released, or is None.
        """
        if best is not None:
            self._crown(best)
        self.ledger.record(Finish())
        self.forget_secret()

    def forget_secret(self):
        """Deletes the secret of a search that has ended."""
        (self.path / SECRET_KEY).unlink(missing_ok=True)

    def number_of_trials(self):
        """K, drawn from the secret: the same whenever it is asked for."""
        rng = np.random.default_rng(list(self._derived("number of trials")))
        return self._search.draw(rng)

    def seed_of(self, *names):
        """A whole number that follows from the secret and `names`, for a trial's settings."""
        return int.from_bytes(self._derived("settings", *names)[:8], "big")

    def run_dir(self, trial_id):
        """The run folder of a trial; that of the winner, once there is one, is elsewhere."""
        return self.path / f"trial_{trial_id}" / RUN

    @property
    def winner(self):
        """The run folder of the winner, once the search has ended."""
        return self.path / WINNER

    def _crown(self, trial_id):
        """Makes a trial the selected one, and records the other trials in its ledger.

        A fault that invalidates the guarantee of one trial invalidates that of the selection.
        """
        if self.winner.exists():
            return
        run = self.run_dir(trial_id)
        others = [path for path in self.path.glob(f"trial_*/{RUN}/{LEDGER}") if path.parent != run]
        own = read_ledger(run / LEDGER)
        own = reopen_ledger(run / LEDGER, own.plan, own.settings)
        try:
            for other in map(read_ledger, others):
                for reason in other.state.no_guarantee_because:
                    own.record(caveat("no_guarantee_of_other_trial", reason=reason))
                for remark in other.state.sentences("foreign_weights"):
                    own.record(caveat("foreign_weights_of_other_trial", remark=remark))
        finally:
            own.close()
        for path in (*run.rglob("*"), run):
            os.utime(path)  # When it was trained would tell which of the trials it was.
        os.rename(run, self.winner)
        files.flush(self.path)

    def _derived(self, *names):
        return hashlib.blake2b(repr(names).encode(), key=self._key, digest_size=32).digest()
