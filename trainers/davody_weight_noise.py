"""Davody et al. (2020), Tables 2 to 4 and Figure 1: noise in the weights. Not private training.

    python -m trainers.davody_weight_noise --dataset=mnist --model=lenet5 --norm=batch --stddev=2
    python -m trainers.davody_weight_noise --dataset=cifar10 --model=resnet18 --norm_placement=mod
    python -m trainers.davody_weight_noise --dataset=ag_news --norm=layer --stddev=1

Prints the paper's test accuracy beside ours and writes a record into --output_dir.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.choices import PLACEMENTS
from trainers.davody import cells as davody
from trainers.specs import NonPrivateSpec

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_enum("dataset", "mnist", davody.WEIGHT_NOISE_DATASETS, "Training set.")
    flags.DEFINE_enum(
        "norm_placement",
        "all",
        PLACEMENTS,
        "Where normalisation is: all, after each trainable layer (the paper's augmented "
        "networks); hidden, not after the logits; mod, nor after the layer before them.",
    )
    own = {"norm": "batch", "weight_noise_stddev": 0.0}
    common.define_run(NonPrivateSpec, "scale", own=own)


def spec():
    settings = common.parsed(NonPrivateSpec)
    settings["stddev"] = settings.pop("weight_noise_stddev")
    placement = FLAGS.norm_placement
    return davody.weight_noise_spec(FLAGS.dataset, norm_placement=placement, **settings)


if __name__ == "__main__":
    common.run(__name__)
