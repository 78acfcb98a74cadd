"""The data of audits: real examples in the form that a network takes."""

import numpy as np

from tfdpnorm.data import match_images, split_public
from tfdpnorm.data.synthetic import is_synthetic
from trainers.data.sources import load_examples
from trainers.runs.data import ExperimentData, synthetic_rows

_IMAGE, _WORDS = (28, 28, 1), (64,)
_FOR_COLOUR = ("resnet9", "resnet18", "resnet50", "tf_tutorial", "vgg", "wide_resnet", "wrn_16_4")
_AUDIT_SHAPES = {
    "bilstm": _WORDS,
    "transformer": _WORDS,
    **dict.fromkeys(_FOR_COLOUR, (32, 32, 3)),
}
_AUDIT_OPTIONS = {"mlp": {"hidden_units": (100,)}}
_BRIGHTNESS_LEVELS = 16


def load_audit_data(spec, count, data_dir=None):
    """Loads so many private examples in the form that the model of an `AuditSpec` takes.

    Models of words get images as 64 words: the brightness of each pixel, in steps of a sixteenth.
    Public rows are split off whatever they are, so that the private rows are the same.
    """
    examples = load_examples(spec.dataset, "train", data_dir)
    public, private = split_public(examples, spec.public_batch_size, seed=spec.seed)
    if not 2 <= count <= len(private):
        raise ValueError(
            f"Expected 2 to {len(private)} private rows of {spec.dataset}, got {count}. Choose a "
            "smaller batch, or fewer canaries."
        )
    shape = _AUDIT_SHAPES.get(spec.model, _IMAGE)
    made_up = synthetic_rows(spec)[0] if is_synthetic(spec.public_dataset) else None
    return ExperimentData(
        train_x=_inputs(private.x[:count], shape),
        train_y=private.y[:count],
        num_classes=examples.num_classes,
        public_x=made_up if made_up is not None else _inputs(public.x, shape),
        model_options=_AUDIT_OPTIONS.get(spec.model, {}),
    )


def _inputs(images, shape):
    if shape != _WORDS:
        return match_images(images, shape)
    side = int(np.sqrt(shape[0]))
    small = match_images(images, (side, side, 1)).reshape(len(images), -1)
    return np.rint(_BRIGHTNESS_LEVELS * small).astype(np.int32)
