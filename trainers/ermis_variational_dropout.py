"""Ermis & Cemgil (2017): variational dropout, SVI and DP-SGD with one hidden layer.

    python -m trainers.ermis_variational_dropout --dataset=digits --method=dpsgd --epsilon=1
    python -m trainers.ermis_variational_dropout --dataset=digits --method=svi --accountant=zcdp \
        --epsilon=1
    python -m trainers.ermis_variational_dropout --dataset=digits --method=dpvd --epsilon=1 \
        --model=random_features
    python -m trainers.ermis_variational_dropout --dataset=digits --method=dpvd --epsilon=0.1 \
        --model=small_cnn --pretraining_dataset=mnist
    python -m trainers.ermis_variational_dropout --dataset=digits --method=dpvd --epsilon=1 \
        --accountant=zcdp --reading=as_printed
    python -m trainers.ermis_variational_dropout --dataset=digits --method=none --epsilon=inf

With --accountant=rdp or pld the noise is calibrated to an epsilon that holds. With ac or zcdp it is
that of the paper's claim, which is no guarantee; what the run really spends, by Renyi accounting,
is in its record. --reading=as_printed is Algorithm 1 to the letter, for which no epsilon holds.
--model=small_cnn uses public data, which the paper does not: its features are learnt on the set
--pretraining_dataset, and only the logits privately.
Prints the paper's test accuracy beside ours and writes a record into
--output_dir. The accountants themselves: python -m trainers.ermis_accountants
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.choices import ACCOUNTANTS
from trainers.ermis import cells as ermis
from trainers.ermis import published
from trainers.specs import PrivateSpec
from trainers.specs.parts import CLAIMING_ACCOUNTANTS, READINGS, VARIATIONAL_METHODS
from trainers.specs.private import IMPORTED, STATISTICS_AND_ROWS
from trainers.specs.training import TEXTS

FLAGS = flags.FLAGS
# Of other papers' networks and data; `model` and `accountant` are flags of their own here.
_OTHERS = (
    *("model", "accountant", "norm", "augmentation_multiplicity", "views", "image_size"),
    *(*TEXTS, *STATISTICS_AND_ROWS, *IMPORTED),
)


def define_flags():
    flags.DEFINE_enum("dataset", "digits", published.DATASETS, "Private dataset.")
    flags.DEFINE_enum("method", "dpsgd", VARIATIONAL_METHODS, "Row of Table 1.")
    flags.DEFINE_enum(
        "accountant",
        None,
        (*CLAIMING_ACCOUNTANTS, *ACCOUNTANTS),
        "Whose epsilon the noise is calibrated to; ac, zcdp: the paper's claims, NO GUARANTEE "
        "of them (default: the experiment's own, rdp or pld).",
    )
    flags.DEFINE_enum(
        "reading",
        "sound",
        READINGS,
        "Of dpvd: sound, with the guarantee of DP-SGD, or as_printed, with NO GUARANTEE, which "
        "needs --accountant=ac or zcdp.",
    )
    flags.DEFINE_integer("hidden_units", 1000, "Of the hidden layer of mlp.", lower_bound=1)
    flags.DEFINE_enum(
        "model",
        None,
        ermis.MODELS,
        "mlp: the paper's; random_features: fixed features and trained logits; small_cnn: the "
        "same with features learnt on a public set, see --pretraining_dataset (default: mlp).",
    )
    common.define_run(PrivateSpec, "scale", required=("epsilon",), leave_out=_OTHERS)


def _check_flags():
    """Raises ValueError for flags that contradict each other, in the flags' own words."""
    claims = " or ".join(CLAIMING_ACCOUNTANTS)
    claimed = FLAGS.accountant in CLAIMING_ACCOUNTANTS
    if FLAGS.reading == "as_printed" and not (FLAGS.method == "dpvd" and claimed):
        raise ValueError(
            f"Expected --method=dpvd and --accountant={claims} with --reading=as_printed, got "
            f"--method={FLAGS.method} and --accountant={FLAGS.accountant}."
        )
    if claimed and FLAGS.method == "none":
        raise ValueError(
            f"Expected no --accountant={claims} with --method=none, which has no noise, got "
            f"{FLAGS.accountant}. Leave it out."
        )


def spec():
    _check_flags()
    is_claimed = FLAGS.accountant in CLAIMING_ACCOUNTANTS
    settings = common.parsed(PrivateSpec)
    settings["accountant"] = None if is_claimed else FLAGS.accountant
    return ermis.spec(
        FLAGS.dataset,
        FLAGS.method,
        calibrated_by=FLAGS.accountant if is_claimed else None,
        reading=FLAGS.reading,
        hidden_units=FLAGS.hidden_units,
        **settings,
    )


if __name__ == "__main__":
    common.run(__name__)
