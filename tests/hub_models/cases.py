"""Small models of KerasHub's own classes, with random weights and a head of two outputs."""

import keras_hub
import numpy as np
import tensorflow as tf
from tensorflow import keras

WORDS, IDS, PIXELS = 6, 20, 16
_TEXT = {"vocabulary_size": IDS, "num_layers": 1, "hidden_dim": 8, "intermediate_dim": 12}
_ENCODER = {**_TEXT, "num_heads": 2, "max_sequence_length": WORDS}
_DECODER = {**_TEXT, "num_query_heads": 2, "num_key_value_heads": 1}
_GEMMA = {**_DECODER, "head_dim": 4}
_IMAGES = (PIXELS, PIXELS, 3)


def _vit():
    return keras_hub.models.ViTBackbone(_IMAGES, 4, 1, 2, 8, 12)


def _resnet():
    return keras_hub.models.ResNetBackbone(
        [64], [3], [64, 64], [1, 1], [1, 2], "basic_block", image_shape=_IMAGES
    )


def _sam_encoder():
    return keras_hub.models.ViTDetBackbone(
        8, 2, 12, 2, [1], image_shape=_IMAGES, patch_size=4, num_output_channels=4, window_size=2
    )


def _efficientnet():
    return keras_hub.models.EfficientNetBackbone(
        stackwise_kernel_sizes=[3, 3],
        stackwise_num_repeats=[1, 1],
        stackwise_input_filters=[8, 8],
        stackwise_output_filters=[8, 8],
        stackwise_expansion_ratios=[1, 2],
        stackwise_squeeze_and_excite_ratios=[0.25, 0.25],
        stackwise_strides=[1, 2],
        stackwise_block_types=["fused", "unfused"],
        width_coefficient=1.0,
        depth_coefficient=1.0,
        image_shape=_IMAGES,
    )


def _mobilenet():
    return keras_hub.models.MobileNetBackbone(
        stackwise_expansion=[[16]],
        stackwise_num_blocks=[1],
        stackwise_num_filters=[[8]],
        stackwise_kernel_size=[[3]],
        stackwise_num_strides=[[1]],
        stackwise_se_ratio=[[0.25]],
        stackwise_activation=[["relu"]],
        stackwise_padding=[[1]],
        output_num_filters=16,
        depthwise_filters=8,
        depthwise_stride=1,
        depthwise_residual=True,
        last_layer_filter=16,
        image_shape=_IMAGES,
        input_num_filters=8,
    )


def _segformer():
    encoder = keras_hub.models.MiTBackbone(
        layerwise_depths=[1, 1],
        num_layers=2,
        layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[2, 1],
        max_drop_path_rate=0.0,
        layerwise_patch_sizes=[3, 3],
        layerwise_strides=[2, 2],
        image_shape=_IMAGES,
        hidden_dims=[8, 12],
    )
    return keras_hub.models.SegFormerBackbone(encoder, 4)


def _with_lora(backbone):
    backbone.enable_lora(2)
    for layer in backbone._flatten_layers():
        if getattr(layer, "lora_enabled", False):  # zero at first, with no gradient of the other
            layer.lora_kernel_b.assign(0.1 * np.ones(layer.lora_kernel_b.shape))
    return backbone


_OF = keras_hub.models
# By name: a function that makes the backbone, and whether it has batch normalisation.
CASES = {
    "BERT": (lambda: _OF.BertBackbone(**_ENCODER), False),
    "BERT with LoRA": (lambda: _with_lora(_OF.BertBackbone(**_ENCODER)), False),
    "DistilBERT": (lambda: _OF.DistilBertBackbone(**_ENCODER), False),
    "RoBERTa": (lambda: _OF.RobertaBackbone(**_ENCODER), False),
    "DeBERTa v3": (lambda: _OF.DebertaV3Backbone(**_ENCODER, bucket_size=4), False),
    "ELECTRA": (
        lambda: _OF.ElectraBackbone(IDS, 1, 2, 8, 8, 12, max_sequence_length=WORDS),
        False,
    ),
    "GPT-2": (lambda: _OF.GPT2Backbone(**_ENCODER), False),
    "GPT-2 with LoRA": (lambda: _with_lora(_OF.GPT2Backbone(**_ENCODER)), False),
    "Gemma": (lambda: _OF.GemmaBackbone(**_GEMMA), False),
    "Gemma 2": (
        lambda: _OF.GemmaBackbone(
            **_GEMMA,
            use_post_ffw_norm=True,
            use_post_attention_norm=True,
            attention_logit_soft_cap=50.0,
            use_sliding_window_attention=True,
            sliding_window_size=4,
        ),
        False,
    ),
    "Gemma 3": (lambda: _OF.Gemma3Backbone(**_GEMMA, image_size=PIXELS), False),
    "T5": (lambda: _OF.T5Backbone(**_TEXT, num_heads=2), False),
    "Llama": (lambda: _OF.LlamaBackbone(**_DECODER), False),
    "Mistral": (lambda: _OF.MistralBackbone(**_DECODER), False),
    "Whisper": (
        lambda: _OF.WhisperBackbone(
            **_TEXT,
            num_heads=2,
            num_mels=4,
            max_encoder_sequence_length=2 * WORDS,
            max_decoder_sequence_length=WORDS,
        ),
        False,
    ),
    "ViT": (_vit, False),
    "SAM's image encoder": (_sam_encoder, False),
    "ResNet": (_resnet, True),
    "EfficientNet": (_efficientnet, True),
    "MobileNet": (_mobilenet, True),
    "SegFormer": (_segformer, True),
}


def _is_decoder(backbone):
    """Whether words are predicted by products with an embedding."""
    return isinstance(
        backbone,
        (
            _OF.GPT2Backbone,
            _OF.GemmaBackbone,
            _OF.Gemma3Backbone,
            _OF.LlamaBackbone,
            _OF.MistralBackbone,
        ),
    )


def model_of(name):
    """A functional model of one of the `CASES`, batch normalisation frozen."""
    make, has_batch_norm = CASES[name]
    keras.utils.set_random_seed(0)
    backbone = make()
    outputs = backbone.output
    if isinstance(outputs, dict):
        outputs = list(outputs.values())[-1]
    if _is_decoder(backbone):
        outputs = backbone.token_embedding(outputs, reverse=True)
    if len(outputs.shape) == 4:
        outputs = keras.layers.GlobalAveragePooling2D()(outputs)
    elif len(outputs.shape) == 3:
        outputs = outputs[:, 1]
    model = keras.Model(backbone.inputs, keras.layers.Dense(2, dtype="float32")(outputs))
    if has_batch_norm:
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = False
    return model


def rows_of(model, count, seed=0):
    """Random rows for the inputs of a model, in its structure of inputs."""
    rng = np.random.default_rng(seed)
    return [_of_input(tensor, count, rng) for tensor in model.inputs]


def _of_input(tensor, count, rng):
    words = 2 * WORDS if "features" in tensor.name else WORDS
    shape = [count, *(words if size is None else size for size in tensor.shape[1:])]
    dtype = tf.as_dtype(tensor.dtype)
    if "mask" in tensor.name:
        return tf.ones(shape, dtype)
    if dtype.is_integer:
        most = 2 if "segment" in tensor.name else IDS
        return tf.constant(rng.integers(0, most, shape), dtype)
    return tf.constant(rng.normal(size=shape), dtype)
