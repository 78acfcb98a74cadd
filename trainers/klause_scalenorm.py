"""Klause et al. (2022): training of residual networks with and without ScaleNorm.

    python -m trainers.klause_scalenorm --model=resnet9 --scale_norm --epsilon=7.42
    python -m trainers.klause_scalenorm --model=wrn_16_4 --epsilon=8 --dry_run
    python -m trainers.klause_scalenorm --model=wide_resnet --depth=40 --epsilon=8 --dry_run
    python -m trainers.klause_scalenorm --dataset=tiny_imagenet --scale_norm --epsilon=10

--norm=batch is Appendix B: --epsilon=inf, by Keras' ordinary step. Prints the paper's test accuracy
beside ours and writes a record into --output_dir.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import math

from absl import flags

from trainers.klause import cells as klause
from trainers.specs import NonPrivateSpec, PrivateSpec
from trainers.specs.options import options
from trainers.specs.private import IMPORTED, PRETRAINING, VARIATIONAL
from trainers.specs.training import TEXTS

FLAGS = flags.FLAGS
_OPTIONS = ("groups", "order", "depth", "width", "standardized_by")
# Of other papers' data and networks; `model` has a flag of its own here.
_OTHERS = ("model", *TEXTS, *PRETRAINING, *VARIATIONAL, *IMPORTED)


def define_flags():
    flags.DEFINE_enum("dataset", "cifar10", klause.DATASETS, "Private dataset.")
    flags.DEFINE_enum("model", "resnet9", klause.MODELS, "Network.")
    flags.DEFINE_bool("scale_norm", False, "Normalise after each residual addition, too.")
    own = "(default: the network's own)"
    flags.DEFINE_integer("groups", None, f"Groups of norm group, -1: one to each channel {own}.")
    flags.DEFINE_enum(
        "order",
        None,
        ("conv_norm_act", "conv_act_norm"),
        f"Of resnet9: as in the authors' code, or as in the paper's text {own}.",
    )
    flags.DEFINE_enum(
        "standardized_by",
        None,
        ("cifar100", "imagenet"),
        "Whose published channel means and standard deviations standardise images; default: none, "
        "except with --scale=paper.",
    )
    flags.DEFINE_integer("depth", None, f"Of wide_resnet: 16, 40, ... {own}.")
    flags.DEFINE_integer(
        "width",
        None,
        f"Of wide_resnet: factor of the channels; of resnet9 and 50: channels of the first {own}.",
    )
    common.define_run(
        PrivateSpec, "scale", own={"norm": "group"}, required=("epsilon",), leave_out=_OTHERS
    )


def spec():
    settings = {**common.parsed(PrivateSpec), "model": FLAGS.model, "scale_norm": FLAGS.scale_norm}
    settings["options"] = {name: FLAGS[name].value for name in _OPTIONS}
    if settings["norm"] != "batch":
        return klause.spec(FLAGS.dataset, **settings)
    epsilon = settings.pop("epsilon", None)
    if epsilon != math.inf:
        raise ValueError(
            "Expected --epsilon=inf with --norm=batch, which cannot be trained privately, got "
            f"{'none' if epsilon is None else f'--epsilon={epsilon:g}'}. Use --norm=public_batch, "
            "group or layer."
        )
    unknown = sorted(set(settings) - {*options(NonPrivateSpec), "scale_norm", "options"})
    if unknown:
        raise ValueError(
            "Expected flags of training without privacy with --norm=batch, got "
            f"{', '.join(f'--{name}' for name in unknown)}. Leave them out."
        )
    return klause.non_private_spec(FLAGS.dataset, **settings)


if __name__ == "__main__":
    common.run(__name__)
