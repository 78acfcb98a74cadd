"""Davody et al. (2020), Tables 2 to 4 and Figure 1: noise in the weights. Not private training.

    python -m trainers.davody_weight_noise --dataset=mnist --model=lenet5 --norm=batch --stddev=2
    python -m trainers.davody_weight_noise --dataset=cifar10 --model=resnet18 --norm_placement=mod
    python -m trainers.davody_weight_noise --dataset=ag_news --norm=layer --stddev=1

Prints the paper's test accuracy beside ours and writes a record into --output_dir.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.choices import PLACEMENTS
from trainers.davody import cells as davody
from trainers.specs import NonPrivateSpec

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum("dataset", "mnist", davody.WEIGHT_NOISE_DATASETS, "Training set.")
    flags.DEFINE_enum(
        "norm_placement",
        "all",
        PLACEMENTS,
        "Where normalisation is: all, after each trainable layer (the paper's augmented "
        "networks); hidden, not after the logits; mod, nor after the layer before them.",
    )
    spec_flags.define(NonPrivateSpec, own={"norm": "batch", "weight_noise_stddev": 0.0})
    common.define_scale()
    common.define_run_flags()


@common.at_given_scale
def spec():
    """Returns the spec that the flags describe."""
    settings = common.parsed(NonPrivateSpec)
    return davody.weight_noise_spec(
        FLAGS.dataset,
        stddev=settings.pop("weight_noise_stddev"),
        norm_placement=FLAGS.norm_placement,
        **settings,
    )


def main():
    """Trains the cell that the flags describe."""
    common.train(spec())


if __name__ == "__main__":
    define_flags()
    common.run_app(main, spec)
