"""Klause et al. (2022): private training of residual networks with and without ScaleNorm.

    python -m trainers.klause_scalenorm --model=resnet9 --scale_norm --epsilon=7.42
    python -m trainers.klause_scalenorm --model=wrn_16_4 --dataset=cifar10 --epsilon=8 --dry_run

Prints the paper's test accuracy beside ours and writes a record into --output_dir.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.experiments.klause import cells as klause
from tfdpnorm.experiments.spec import ExperimentSpec

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum("dataset", "cifar10", klause.DATASETS, "Private dataset.")
    flags.DEFINE_bool("scale_norm", False, "Normalise after each residual addition, too.")
    flags.DEFINE_integer(
        "groups", None, "Groups of group normalisation (default: the network's own)."
    )
    spec_flags.define(
        ExperimentSpec,
        own={"norm": "group", "model": "resnet9"},
        required=("epsilon",),
    )
    common.define_private_run_flags()


def main():
    """Trains the cell that the flags describe."""
    settings = spec_flags.given(ExperimentSpec)
    common.train(
        klause.spec(FLAGS.dataset, scale_norm=FLAGS.scale_norm, groups=FLAGS.groups, **settings)
    )


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
