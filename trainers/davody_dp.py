"""Davody et al. (2020), Tables 5 to 7: private training with and without normalisation.

    python -m trainers.davody_dp --dataset=mnist --norm=public_batch --epsilon=1
    python -m trainers.davody_dp --dataset=cifar10 --model=vgg --norm=public_batch --epsilon=8
    python -m trainers.davody_dp --dataset=ag_news --norm=layer --epsilon=3
    python -m trainers.davody_dp --dataset=mnist --norm=layer --epsilon=1 --dry_run

Prints the paper's test accuracy beside ours and writes a record into --output_dir.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.experiments.davody import cells as davody

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum("dataset", "mnist", davody.PRIVATE_DATASETS, "Private dataset.")
    common.define_flags()
    flags.adopt_module_key_flags(common)  # so that --help lists them


def main():
    """Trains the cell that the flags describe."""
    common.train(
        davody.spec(
            FLAGS.dataset, FLAGS.norm, FLAGS.epsilon, model=FLAGS.model, **common.given_values()
        )
    )


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
