"""Loading Keras models, and converting them for private training."""

from __future__ import annotations

import pathlib
import warnings
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments, files
from tfdpnorm.choices import BATCH_NORMS
from tfdpnorm.convert.backbone import checked_trainable, counts, freeze
from tfdpnorm.convert.converters import OF_NEW_LAYER, Settings
from tfdpnorm.convert.exchanges import Exchanges
from tfdpnorm.convert.report import ConversionReport, output_change
from tfdpnorm.earlier_training import remember_training, steps_in_file
from tfdpnorm.errors import level_of_caller
from tfdpnorm.independence import check_no_adapted_layers
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.keras_compat.exchange import cloned
from tfdpnorm.keras_compat.graphs import check_runs_eagerly, traced
from tfdpnorm.keras_compat.models import is_made_of_layers, sublayers
from tfdpnorm.keras_compat.saving import (
    CLASSES_OF_KERAS_2,
    check_keras_of_file,
    configs_of_keras_2,
    revived_classes,
)
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import PublicMomentsLayer, PublicStatistics, record_pass
from tfdpnorm.privacy.metadata import read_metadata

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any


def load_model(
    model: keras.Model | str | os.PathLike, custom_objects: dict[str, Any] | None = None
) -> keras.Model:
    """Returns a Keras model, loaded from a file if a path is given.

    A file can hold code, for instance in Lambda layers of the HDF5 format: load only trusted files.
    Statements of later runs that train it say that it was trained, and by which private run.

    Args:
        model: A Keras model; or the path of a `.keras` file (with Keras 3 also one of Keras 2), of
            an HDF5 file that holds a whole model and not weights alone, or, with Keras 2, of a
            folder in the SavedModel format that Keras wrote.
        custom_objects: Dict from names to the classes and functions of the file that are not
            Keras' own and not registered.

    Returns:
        The Keras model; one from a file is not compiled.

    Raises:
        ValueError: if it is neither, or the file does not hold a Keras model.
        FileNotFoundError: if there is no such file.
    """
    if isinstance(model, keras.Model):
        return model
    if not isinstance(model, (str, pathlib.Path)):
        raise ValueError(
            f"Expected a Keras model or the path of one, got {type(model).__name__}. Save other "
            "models as .keras files first."
        )
    path = pathlib.Path(model)
    if not path.exists():
        raise FileNotFoundError(f"File not found: {path}. Give the path of a Keras model.")
    if KERAS_3 and path.is_dir() and (path / "saved_model.pb").exists():
        raise ValueError(
            f"Expected a .keras or HDF5 file, got {path}, a SavedModel, which Keras 3 does not "
            'load. Save the model with model.save("model.keras"), under Keras 2 if Keras 2 wrote '
            "it."
        )
    try:
        known = {**CLASSES_OF_KERAS_2, **(custom_objects or {})}
        with configs_of_keras_2():
            loaded = keras.models.load_model(path, compile=False, custom_objects=known)
    except Exception as error:  # of any kind: h5py, zip and Keras have their own
        check_keras_of_file(path)
        raise ValueError(
            f"The file {path} cannot be loaded as a whole Keras model ({files.reason(error)}). A "
            "file of weights holds no model: build the model, and load the weights into it. Pass "
            "layers that are not part of Keras in custom_objects."
        ) from error
    if not isinstance(loaded, keras.Model):
        raise ValueError(
            f"Expected a Keras model in {path}, got a SavedModel that Keras did not write. Save "
            "the model with model.save(...)."
        )
    unknown = revived_classes(loaded)
    if unknown:
        raise ValueError(
            f"Expected a SavedModel of known classes, got {unknown} in {path}, whose code the file "
            "does not hold. Pass them in custom_objects."
        )
    read_metadata(path)
    remember_training(loaded, steps_in_file(path))
    return loaded


OPTIONS = (
    "batch_norm",
    "scale_norm",
    "trainable",
    "groups",
    "public_rows",
    "custom_objects",
    "normalization_is_public",
)


class ConvertedModel(NamedTuple):
    """The result of a conversion.

    Attributes:
        model: The new Keras model.
        report: `ConversionReport`.
    """

    model: keras.Model
    report: ConversionReport


def convert_model(
    model: keras.Model | str | os.PathLike,
    batch_norm: str = "public_batch",
    *,
    scale_norm: bool = False,
    trainable: str | Sequence[str] | None = None,
    groups: int | None = None,
    public_rows: Any = None,
    custom_objects: dict[str, Any] | None = None,
    normalization_is_public: bool = False,
) -> ConvertedModel:
    """Returns a copy of a Keras model that can be trained under differential privacy.

    Each batch normalisation is replaced by a layer that treats each example by itself. Its gamma,
    beta and moving averages are carried over so that outputs change as little as possible. A layer
    that cannot be replaced as requested, such as one that is called twice, normalises by its moving
    averages, as with "frozen", and is named in the report. So does batch normalisation inside of
    other layers, with gamma and beta that are not trained either. Layers keep their names, and all
    other layers keep their weights.

    Privacy:
        Weights and moving averages are assumed to be public: they must not come from private data
        that the guarantee is to cover. Layers that `adapt()` fitted are rejected, since fresh
        models have them, too.

    Args:
        model: A Sequential or functional Keras model, built; or the path of one (see
            `tfdpnorm.convert.load_model`). It is not changed.
        batch_norm: "public_batch": `PublicBatchNormalization`, whose moments are the moving
            averages until private training takes those of public rows; the same outputs.
            "frozen": `FrozenBatchNormalization`, by the moving averages for good, with gamma and
            beta trained; the same outputs. "group" and "layer": the moments of each example, in
            groups of channels or in all; other outputs, with the moving averages folded into gamma
            and beta.
        scale_norm: Whether `ScaleNorm` follows the residual additions found in the graph: `Add`
            layers, not the operator. Changes outputs.
        trainable: Which layers are trained, see `tfdpnorm.convert.backbone`; None leaves that as it
            is. Batch normalisation in frozen layers stays as it is, in inference mode.
        groups: Desired number of groups, for "group" and for `ScaleNorm`; by default 32, or fewer
            so that each has four channels.
        public_rows: [M, ...] rows that are not private; the report then says how much the outputs
            for these changed.
        custom_objects: Dict from names to the classes and functions that the file, or the configs
            of the model in memory, use and that are neither part of Keras nor registered.
        normalization_is_public: Whether `adapt()` of each `Normalization` saw public data alone, as
            in a pre-trained EfficientNet. Then these layers become constants.

    Returns:
        `ConvertedModel`, a pair of the model and the report.

    Raises:
        ValueError: for settings out of range, a file without a model, a model that is not built,
            one that cannot be copied, and one that does not run in a graph.
        PrivacyError: for a layer that `adapt()` fitted to data.
        FileNotFoundError: if there is no such file.

    Example::

        imported = keras.Sequential(
            [keras.Input([4]), keras.layers.Dense(8), keras.layers.BatchNormalization()]
        )
        model, report = tfdpnorm.convert_model(imported, "group", groups=4)
        print(report)
    """
    check_runs_eagerly()
    arguments.choice("batch_norm", batch_norm, BATCH_NORMS)
    arguments.boolean("scale_norm", scale_norm)
    arguments.boolean("normalization_is_public", normalization_is_public)
    if groups is not None:
        groups = arguments.integer("groups", groups, at_least=1)
    settings = Settings(batch_norm, groups)
    if trainable is not None:
        checked_trainable(trainable)
    original = load_model(model, custom_objects)
    if not original.built:
        raise ValueError(
            f"Model {original.name!r} has no weights yet. Call it on a batch, or "
            "model.build(input_shape), first."
        )
    remember_training(original)
    # Before the copy: it would lose vocabularies, and hold a mean as a constant.
    check_no_adapted_layers(original, normalization_is_public=normalization_is_public)
    if not is_made_of_layers(original):
        raise ValueError(
            "Expected a Sequential or functional model, got the subclassed "
            f"{type(original).__name__} {original.name!r}, whose layers only its own code can "
            "exchange. Use keras.layers.GroupNormalization there, or freeze its batch "
            "normalisation: layer.trainable = False."
        )
    with keras.utils.custom_object_scope(custom_objects or {}):
        if trainable is not None:  # of a copy, so that the model is left alone
            original = cloned(original, lambda layer: None)[0]
            freeze(original, trainable)
        exchanges = Exchanges(settings, scale_norm, several=())
        converted = exchanges.converted(original)
        several = _called_more_than_once(converted)
        if several:
            exchanges = Exchanges(settings, scale_norm, several)
            converted = exchanges.converted(original)
    names = [layer.name for layer in exchanges.report if OF_NEW_LAYER in layer.carried]
    if names:
        others = "" if len(names) == 1 else f", like {len(names) - 1} more,"
        warnings.warn(
            f"Frozen, layer {names[0]!r}{others} normalises nothing: it was never trained. Use "
            'convert="public_batch" or "group".',
            stacklevel=level_of_caller(),
        )
    return ConvertedModel(converted, _report(original, converted, exchanges, public_rows))


def _called_more_than_once(model):
    """Names of public-batch layers that one pass of the model calls more than once, or in a loop.

    They could not keep their moments: a layer holds one pair of them.
    """
    layers = [x for x in sublayers(model) if isinstance(x, PublicMomentsLayer)]
    if not layers:
        return ()
    statistics, graphs = PublicStatistics(), []

    def run(x):
        graphs.append(tf.compat.v1.get_default_graph())
        with record_pass(statistics):
            return model(x, training=True)

    try:
        traced(run, (input_specs(model),))
    except Exception as error:  # of any layer's own code
        raise ValueError(
            f"Model {model.name!r} does not run in a graph, as training requires "
            f"({files.reason(error)}). Use TensorFlow operations in its call()."
        ) from error
    found = []
    for layer in layers:
        moments = statistics.of_layer(layer)
        # A tensor of another graph is one of a loop.
        if len(moments) != 1 or moments[0].mean.graph is not graphs[-1]:
            found.append(layer.name)
    return tuple(found)


def _report(original, converted, exchanges, public_rows):
    change = in_training = None
    if public_rows is not None:
        rows = tf.nest.map_structure(tf.convert_to_tensor, public_rows)
        before = original(rows, training=False)
        change = output_change(before, converted(rows, training=False))
        if any(isinstance(x, PublicMomentsLayer) for x in sublayers(converted)):
            with record_pass(PublicStatistics()):
                in_training = output_change(before, converted(rows, training=False))
    return ConversionReport(
        batch_norm=exchanges.settings.batch_norm,
        layers=tuple(exchanges.report),
        trainable=counts(converted),
        output_change=change,
        output_change_in_training=in_training,
    )
