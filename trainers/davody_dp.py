"""Davody et al. (2020), Tables 5 to 7: private training with and without normalisation.

    python -m trainers.davody_dp --dataset=mnist --norm=public_batch --epsilon=1
    python -m trainers.davody_dp --dataset=cifar10 --model=vgg --norm=public_batch --epsilon=8
    python -m trainers.davody_dp --dataset=ag_news --norm=layer --epsilon=3
    python -m trainers.davody_dp --dataset=mnist --norm=layer --epsilon=1 --dry_run
    python -m trainers.davody_dp --dataset=mnist --norm=layer --norm_placement=all --epsilon=1

Prints the paper's test accuracy beside ours and writes a record into --output_dir.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.choices import PLACEMENTS
from trainers.davody import cells as davody
from trainers.specs import PrivateSpec
from trainers.specs.private import IMPORTED, VARIATIONAL

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_enum("dataset", "mnist", davody.PRIVATE_DATASETS, "Private dataset.")
    flags.DEFINE_enum(
        "norm_placement",
        "hidden",
        PLACEMENTS,
        "Where normalisation is: hidden, not after the logits; all, after them too (the paper's "
        "networks, Section 2); mod, nor after the layer before them.",
    )
    common.define_run(
        PrivateSpec,
        "scale",
        own={"norm": "public_batch"},
        required=("epsilon",),
        leave_out=(*VARIATIONAL, *IMPORTED, "image_size"),
    )


def spec():
    settings = common.parsed(PrivateSpec)
    return davody.spec(FLAGS.dataset, norm_placement=FLAGS.norm_placement, **settings)


if __name__ == "__main__":
    common.run(__name__)
