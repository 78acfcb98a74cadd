"""How long the network is trained, by which steps, and when it is evaluated."""

import dataclasses

from tfdpnorm import arguments
from trainers.knobs import Condition, Part, again, knob

OPTIMIZERS = ("sgd", "adam", "nadam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")
ROUNDS = ("epoch", "update")
PLATEAUS = ("none", "private", "public", "test")
_HAS_MOMENTUM = Condition("--optimizer=sgd", lambda settings: settings["optimizer"] == "sgd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(Part):
    """How long the network is trained, and by which steps.

    A spec with this part has a property `examples_per_update`.
    """

    epochs: float | None = knob(None, "Passes over the data; or --steps.", check=arguments.positive)
    steps: int | None = knob(None, "Updates; or --epochs.", at_least=1, instead_of="epochs")
    optimizer: str = knob("sgd", "Keras optimizer.", choices=OPTIMIZERS)
    learning_rate: float = knob(1.0, "Learning rate at the start.", check=arguments.positive)
    learning_rate_schedule: str = knob(
        "constant",
        "Course of the learning rate; cosine and linear go down to 0 at the last update.",
        choices=SCHEDULES,
    )
    momentum: float = knob(0.9, "Momentum of sgd.", only_if=_HAS_MOMENTUM)

    def updates(self, num_examples):
        """The number of updates T on `num_examples` examples."""
        if self.steps is not None:
            return self.steps
        return max(1, round(self.epochs * num_examples / self.examples_per_update))


_DECAYS = Condition(
    "--learning_rate_schedule=power",
    lambda settings: settings["learning_rate_schedule"] == "power",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerSchedule(Optimizer):
    """A learning rate that may also fall as a power of the round t = 1, 2, ..."""

    learning_rate_schedule: str = again(
        Optimizer,
        "learning_rate_schedule",
        "constant",
        help="Course of the learning rate; cosine and linear go down to 0 at the last update, "
        "power is the first one over t to the --learning_rate_power.",
        choices=(*SCHEDULES, "power"),
    )
    learning_rate_power: float = knob(
        1.0, "Gamma of power.", check=arguments.nonnegative, only_if=_DECAYS
    )
    learning_rate_round: str = knob(
        "epoch", "What t of power counts.", choices=ROUNDS, only_if=_DECAYS
    )


_HALVES = Condition(
    "--plateau=private, public or test", lambda settings: settings["plateau"] != "none"
)
_ASKS_EXAMPLES = Condition(
    "--plateau=private or --plateau=public",
    lambda settings: settings["plateau"] in ("private", "public"),
)
_ASKS_PRIVATE_EXAMPLES = Condition(
    "--plateau=private", lambda settings: settings["plateau"] == "private"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plateau(Optimizer):
    """Halving of the learning rate where training makes no progress."""

    plateau: str = knob(
        "none",
        "Whether the learning rate is halved on a plateau: private, of a noised accuracy on "
        "private examples that are left out of training, which is paid for; public, of the loss on "
        "--plateau_dataset; test, of the loss on the test set, which no epsilon covers, as the "
        "statement says.",
        choices=PLATEAUS,
    )
    plateau_patience: int = knob(
        3, "Epochs without progress that make a plateau.", at_least=1, only_if=_HALVES
    )
    plateau_examples: int = knob(
        5_000,
        "For --plateau=private or public: how many examples.",
        at_least=2,
        only_if=_ASKS_EXAMPLES,
    )
    plateau_epsilon: float = knob(
        1.0,
        "For --plateau=private: what all answers together cost these examples, at the same delta.",
        check=arguments.positive,
        only_if=_ASKS_PRIVATE_EXAMPLES,
    )

    plateau_dataset: str | None = knob(
        None,
        "For --plateau=public: labelled examples of the same classes that are nobody's secret, a "
        "folder of images or a CSV file as in docs/import.md; its classes are numbered by name.",
    )

    def __post_init__(self):
        super().__post_init__()
        if (self.plateau_dataset is None) == (self.plateau == "public"):
            raise ValueError(
                "Expected plateau_dataset with plateau='public' and only there, got "
                f"plateau={self.plateau!r} and plateau_dataset={self.plateau_dataset!r}."
            )
        if self.plateau != "none" and self.learning_rate_schedule != "constant":
            raise ValueError(
                "Expected learning_rate_schedule='constant' with a plateau, got "
                f"{self.learning_rate_schedule!r}. Leave one of them out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(Part):
    """What is evaluated, and when."""

    ema_decay: float | None = knob(0.99, "Decay of the weight average.", check=arguments.decay)
    evaluations: int = knob(
        10,
        "About how many times to take the test accuracy during the run, for its curve.",
        at_least=1,
        measured=False,
    )
