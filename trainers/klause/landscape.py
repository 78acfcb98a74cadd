"""The loss landscape and the activations of a trained model: a file goes in, a record comes out."""

import time

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import without_mixed_precision
from tfdpnorm.layers import ScaleNorm
from trainers.analysis.activations import block_activations, residual_additions
from trainers.analysis.hessian import Hessian
from trainers.analysis.spectrum import Estimate, lanczos, power_iteration, trace
from trainers.records.made_with import made_with

_SECONDS_BETWEEN_LINES = 60


def measure_landscape(name, model, x, y, settings, *, source, echo=print):
    """Returns the record of a model's landscape, with `LANDSCAPE_FIELDS`.

    The functional Keras model has logits as outputs. If it computes in half precision, what is
    measured is a copy that does not: the weights are the same numbers, and products in bfloat16 are
    off by ten per cent. `source` says where model and rows come from, a dict for the record.
    """
    if not 1 <= settings.rows <= len(x):
        raise ValueError(f"Expected rows of 1 to {len(x)}, got {settings.rows}.")
    drawn = np.random.default_rng(settings.seed).permutation(len(x))[: settings.rows]
    x, y = x[drawn], y[drawn]
    model = without_mixed_precision(model)
    begin = time.monotonic()

    def loss(labels, outputs):
        return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)

    said = begin

    def done(what):
        nonlocal said
        said = time.monotonic()
        echo(f"{name}: {what}; {hessian.products} products in {said - begin:.0f} s")

    def progress(_):
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES:
            done("going on")

    hessian = Hessian(model, x, y, loss, batch_size=settings.batch_size, progress=progress)

    asymmetry = hessian.asymmetry(settings.seed)
    if not asymmetry <= Hessian.MOST_ASYMMETRY:
        raise ValueError(
            f"Expected a model with right second derivatives, got {name!r} with a Hessian that is "
            f"not symmetric (by {asymmetry:.2g}). See `asymmetry` in trainers.analysis.hessian."
        )
    limits = {"tolerance": settings.tolerance, "seed": settings.seed}
    power = power_iteration(hessian, max_iterations=settings.max_products, **limits)
    done(f"eigenvalue of the largest absolute value {power.value:.6g}")
    ritz = lanczos(hessian, settings.lanczos_steps, settings.seed)
    largest, smallest = (_end(ritz, place, settings.tolerance) for place in (-1, 0))
    done(f"{ritz.negative} of {len(ritz.values)} Ritz values are negative")
    done(f"largest eigenvalue {largest.value:.6g} +- {largest.error:.2g}")
    done(f"smallest eigenvalue {smallest.value:.6g} +- {smallest.error:.2g}")
    total = trace(hessian, max_products=settings.max_products, **limits)
    done(f"trace {total.value:.6g} +- {total.error:.2g}")
    blocks = {}
    for layer in residual_additions(model):
        block = block_activations(model, layer, x, settings.batch_size)
        blocks[layer.name] = {
            path: {
                "mean": moments.mean,
                "stddev": moments.stddev,
                "counts": moments.counts.tolist(),
                "limits": [float(moments.edges[0]), float(moments.edges[-1])],
            }
            for path, moments in block._asdict().items()
        }
    return {
        "experiment": "klause_landscape",
        "kind": "landscape",
        "cell": name,
        "parameters": hessian.size,
        "rows": settings.rows,
        "largest_eigenvalue": largest._asdict(),
        "smallest_eigenvalue": smallest._asdict(),
        "power_iteration": power._asdict(),
        "trace": total._asdict(),
        "negative_ritz_values": ritz.negative,
        "negative_share": ritz.negative_share,
        "condition_number": ritz.condition_number,
        "ritz_values": ritz.values.tolist(),
        "ritz_weights": ritz.weights.tolist(),
        "asymmetry": float(asymmetry),
        "activations": blocks,
        "products": hessian.products,
        "seed": settings.seed,
        "seconds": time.monotonic() - begin,
        **made_with({**settings.settings, **source}),
    }


def check_network(path, model, *, scale_norm, examples, dataset):
    """Raises ValueError unless the model in a file is the network that it is given for.

    Either all of its residual blocks have `ScaleNorm`, or none. `examples` are those that it was
    trained on.
    """
    blocks = residual_additions(model)
    scaled = sum(isinstance(layer, ScaleNorm) for layer in blocks)
    if not blocks or scaled != (len(blocks) if scale_norm else 0):
        raise ValueError(
            f"Expected a network {'with' if scale_norm else 'without'} ScaleNorm in {path}, got "
            f"one with {len(blocks)} residual blocks, {scaled} of them with it. Are the two files "
            "swapped?"
        )
    if model.output_shape[-1] != examples.num_classes:
        raise ValueError(
            f"Expected a network with {examples.num_classes} logits, as {dataset} has classes, got "
            f"{path} with {model.output_shape[-1]}. Give its --dataset."
        )


def _end(ritz, place, tolerance):
    """The largest or smallest eigenvalue as Lanczos steps know it, an `Estimate`."""
    value, error = float(ritz.values[place]), float(ritz.errors[place])
    return Estimate(value, error, error <= tolerance * abs(value), len(ritz.values))
