"""The models of `benchmarks.workloads` in JAX, with as many parameters.

A model is a pair: a function from a random key to a dict of parameters, and a function from these
and a batch of inputs to logits. Inputs are channels-last.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax


def get_model(name):
    """Returns (init, apply) of a model of `benchmarks.workloads.WORKLOADS`."""
    return {
        "lenet5": (_init_lenet5, _lenet5),
        "mlp": (_init_mlp, _mlp),
        "resnet9": (_init_resnet9, _resnet9),
        "wrn_16_4": (_init_wrn, _wrn),
        "bilstm": (_init_bilstm, _bilstm),
        "transformer": (_init_transformer, _transformer),
    }[name]


# Layers


def _weights(key, *shape, bias=True):
    kernel = jax.random.normal(key, shape) / math.sqrt(math.prod(shape[:-1]))
    return {"kernel": kernel, "bias": jnp.zeros(shape[-1])} if bias else {"kernel": kernel}


def _norm_weights(channels):
    return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}


def _dense(p, x):
    return x @ p["kernel"] + p["bias"]


def _convolve(p, x, stride=1, padding="SAME"):
    x = lax.conv_general_dilated(
        x, p["kernel"], (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return x + p["bias"] if "bias" in p else x


def _standardized_convolve(p, x, stride=1):
    kernel = p["kernel"]
    fan_in = math.prod(kernel.shape[:3])
    mean, variance = kernel.mean((0, 1, 2)), kernel.var((0, 1, 2))
    scale = lax.rsqrt(jnp.maximum(variance * fan_in, 1e-4)) * p["gain"]
    return _convolve({"kernel": (kernel - mean) * scale, "bias": p["bias"]}, x, stride)


def _group_norm(p, x, groups):
    rows, height, width, channels = x.shape
    x = x.reshape(rows, height, width, groups, channels // groups)
    mean, variance = x.mean((1, 2, 4), keepdims=True), x.var((1, 2, 4), keepdims=True)
    x = (x - mean) * lax.rsqrt(variance + 1e-3)
    return x.reshape(rows, height, width, channels) * p["scale"] + p["shift"]


def _layer_norm(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-3) * p["scale"] + p["shift"]


def _max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _flat(x):
    return x.reshape(x.shape[0], -1)


# Models


def _init_lenet5(key):
    keys = jax.random.split(key, 5)
    shapes = {
        "conv1": (5, 5, 1, 6),
        "conv2": (5, 5, 6, 16),
        "dense1": (400, 120),
        "dense2": (120, 84),
        "logits": (84, 10),
    }
    return {
        name: _weights(k, *shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def _lenet5(p, x):
    x = _max_pool(jax.nn.relu(_convolve(p["conv1"], x)))
    x = _max_pool(jax.nn.relu(_convolve(p["conv2"], x, padding="VALID")))
    x = jax.nn.relu(_dense(p["dense1"], _flat(x)))
    return _dense(p["logits"], jax.nn.relu(_dense(p["dense2"], x)))


def _init_mlp(key):
    one, two = jax.random.split(key)
    return {"dense1": _weights(one, 784, 1000), "logits": _weights(two, 1000, 10)}


def _mlp(p, x):
    return _dense(p["logits"], jax.nn.relu(_dense(p["dense1"], x)))


_RESNET9 = ((3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 256), (256, 256))
_RESNET9 += ((256, 256),)


def _init_resnet9(key):
    keys = jax.random.split(key, len(_RESNET9) + 1)
    p = {
        f"conv{i}": {
            **_weights(k, 3, 3, inputs, outputs, bias=False),
            "norm": _norm_weights(outputs),
        }
        for i, (k, (inputs, outputs)) in enumerate(zip(keys[1:], _RESNET9, strict=True))
    }
    return {**p, "logits": _weights(keys[0], 1024, 10)}


def _resnet9(p, x):
    def block(i, x):
        x = _convolve(p[f"conv{i}"], x)
        x = _group_norm(p[f"conv{i}"]["norm"], x, math.gcd(32, x.shape[-1]))
        return x * jnp.tanh(jax.nn.softplus(x))

    x = _max_pool(block(1, block(0, x)))
    x = block(3, block(2, x)) + x
    x = _max_pool(block(5, _max_pool(block(4, x))))
    x = block(7, block(6, x)) + x
    return _dense(p["logits"], _flat(_max_pool(x)))


# Inputs, outputs and stride of each block of WRN-16-4; the first of each width has a skip.
_WRN = ((16, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))


def _init_wrn(key):
    def convolution(key, inputs, outputs):
        return {**_weights(key, 3, 3, inputs, outputs), "gain": jnp.ones(outputs)}

    keys = iter(jax.random.split(key, 2 + 3 * len(_WRN)))
    p = {"stem": convolution(next(keys), 3, 16), "logits": _weights(next(keys), 256, 10)}
    for i, (inputs, outputs, _) in enumerate(_WRN):
        p[f"block{i}"] = {
            "norm1": _norm_weights(inputs),
            "conv1": convolution(next(keys), inputs, outputs),
            "norm2": _norm_weights(outputs),
            "conv2": convolution(next(keys), outputs, outputs),
        }
        if inputs != outputs:
            p[f"block{i}"]["skip"] = _weights(next(keys), 1, 1, inputs, outputs, bias=False)
    return {**p, "norm": _norm_weights(256)}


def _wrn(p, x):
    def activated(weights, x):
        return jax.nn.relu(_group_norm(weights, x, math.gcd(16, x.shape[-1])))

    x = _standardized_convolve(p["stem"], x)
    for i, (_, _, stride) in enumerate(_WRN):
        block = p[f"block{i}"]
        skip = _convolve(block["skip"], x, stride) if "skip" in block else x
        path = _standardized_convolve(block["conv1"], activated(block["norm1"], x), stride)
        x = _standardized_convolve(block["conv2"], activated(block["norm2"], path)) + skip
    return _dense(p["logits"], activated(p["norm"], x).mean((1, 2)))


def _init_bilstm(key):
    keys = jax.random.split(key, 6)
    p = {
        "embedding": jax.random.normal(keys[0], (10_000, 100)) * 0.05,
        "logits": _weights(keys[1], 128, 4),
    }
    for name, one, two in (("forward", *keys[2:4]), ("backward", *keys[4:])):
        p[name] = {**_weights(one, 100, 256), "recurrent": _weights(two, 64, 256)["kernel"]}
    return p


def _bilstm(p, x):
    words = p["embedding"][x]

    def last(cell, reverse):
        # Inputs are multiplied all at once, out of the loop.
        inputs = jnp.swapaxes(_dense(cell, words), 0, 1)

        def step(state, z):
            h, c = state
            i, f, g, o = jnp.split(z + h @ cell["recurrent"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((x.shape[0], 64))
        return lax.scan(step, (zeros, zeros), inputs, reverse=reverse)[0][0]

    both = [last(p["forward"], False), last(p["backward"], True)]
    return _dense(p["logits"], jnp.concatenate(both, -1))


def _init_transformer(key):
    keys = jax.random.split(key, 8)
    names = ("query", "key", "value", "output")
    return {
        "embedding": jax.random.normal(keys[0], (1_000, 128)),
        "norm1": _norm_weights(128),
        **{name: _weights(k, 128, 128) for name, k in zip(names, keys[1:5], strict=True)},
        "norm2": _norm_weights(128),
        "dense1": _weights(keys[5], 128, 512),
        "dense2": _weights(keys[6], 512, 128),
        "logits": _weights(keys[7], 128, 4),
    }


def _transformer(p, x):
    words, width, heads = x.shape[1], 128, 4
    angles = jnp.arange(words)[:, None] / 10_000.0 ** (jnp.arange(0, width, 2) / width)
    x = p["embedding"][x] + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)

    def split(name, x):
        return _dense(p[name], x).reshape(*x.shape[:2], heads, width // heads)

    y = _layer_norm(p["norm1"], x)
    scores = jnp.einsum("nqhd,nkhd->nhqk", split("query", y), split("key", y))
    shares = jax.nn.softmax(scores / math.sqrt(width // heads))
    mixed = jnp.einsum("nhqk,nkhd->nqhd", shares, split("value", y))
    x = x + _dense(p["output"], mixed.reshape(x.shape))
    y = jax.nn.gelu(_dense(p["dense1"], _layer_norm(p["norm2"], x)), approximate=False)
    x = x + _dense(p["dense2"], y)
    return _dense(p["logits"], x.mean(1))
