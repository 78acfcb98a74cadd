"""What is trained on and scored on."""

import dataclasses
import pathlib

from trainers.knobs import Condition, Part, knob

VOCABULARIES = ("hashed", "public", "private")
CACHE_DIR = "outputs/pretrained"


def check_not_private(name, public, private):
    """Refuses a public set that is the private one.

    Args:
        name: Of the setting.
        public: Name or path of the public set.
        private: Name or path of the private one.

    Raises:
        ValueError: if they are the same.
    """
    if pathlib.Path(public).resolve() == pathlib.Path(private).resolve():
        raise ValueError(
            f"Expected another {name} than the private dataset, got {public!r} and {private!r}. "
            "What is taken from the private examples without noise is not private."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(Part):
    """Where the examples come from, and the seed of what is drawn that need not be secret."""

    dataset: str = knob(
        help="Name of the training set (`tfdpnorm.data.load_examples`).", flag=False
    )
    seed: int = knob(
        0,
        "Seeds initial weights and public rows; never lots or the noise of privacy.",
        at_least=0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSet(Dataset):
    """How much of the data set is trained on."""

    max_examples: int | None = knob(None, "Use only the first training examples.", at_least=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut(Dataset):
    """Examples to look at during training."""

    validation_examples: int = knob(5_000, "Training examples held out, for the curve.", at_least=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredOn(Dataset):
    """Which examples the accuracy is taken of."""

    held_out: int | None = knob(
        None,
        "For the choice of settings: leave so many training examples out, drawn by --seed, and "
        "take the accuracy of these in place of the test set. No epsilon covers what is chosen.",
        at_least=2,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts(Part):
    """How texts become token ids."""

    vocabulary: str = knob(
        "hashed",
        "For texts: how words get token ids. private: the commonest words of the training texts, "
        "NO GUARANTEE; public: those of --vocabulary_file.",
        choices=VOCABULARIES,
    )
    vocabulary_size: int = knob(10_000, "For texts: number of token ids, padding included.")
    vocabulary_file: str | None = knob(
        None, "For --vocabulary=public: a text file that is nobody's secret."
    )
    sequence_length: int = knob(64, "For texts: tokens kept of each.")

    def __post_init__(self):
        super().__post_init__()
        if (self.vocabulary_file is None) == (self.vocabulary == "public"):
            raise ValueError(
                "Expected vocabulary_file with vocabulary='public' and only there, got "
                f"vocabulary={self.vocabulary!r} and vocabulary_file={self.vocabulary_file!r}."
            )


_IS_PRETRAINED = Condition(
    "--pretraining_dataset", lambda settings: settings["pretraining_dataset"] is not None
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining(Dataset):
    """Public training of the network's part "features", which is then frozen."""

    pretraining_dataset: str | None = knob(
        None,
        "Public set to train convolutions on, which are then frozen, so that only the rest is "
        "trained privately.",
    )
    pretraining_epochs: int = knob(
        40, "Passes over the public set.", at_least=1, only_if=_IS_PRETRAINED
    )

    def __post_init__(self):
        super().__post_init__()
        if self.pretraining_dataset is not None:
            check_not_private("pretraining_dataset", self.pretraining_dataset, self.dataset)
