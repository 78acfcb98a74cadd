"""Other forms of a model: an imported one made trainable, a trained one made ready to serve."""

from tfdpnorm.convert.backbone import freeze
from tfdpnorm.convert.convert import ConvertedModel, convert_model, load_model
from tfdpnorm.convert.converters import (
    CannotConvertError,
    Replacement,
    Settings,
    register_converter,
)
from tfdpnorm.convert.exported import ExportedFile, export, write_card
from tfdpnorm.convert.features import FeatureExtractor, Pixels, image_features
from tfdpnorm.convert.fold import fold_public_statistics
from tfdpnorm.convert.report import ConversionReport, ConvertedLayer, OutputChange
from tfdpnorm.convert.tflite import run_tflite

__all__ = [
    "CannotConvertError",
    "ConversionReport",
    "ConvertedLayer",
    "ConvertedModel",
    "ExportedFile",
    "FeatureExtractor",
    "OutputChange",
    "Pixels",
    "Replacement",
    "Settings",
    "convert_model",
    "export",
    "fold_public_statistics",
    "freeze",
    "image_features",
    "load_model",
    "register_converter",
    "run_tflite",
    "write_card",
]
