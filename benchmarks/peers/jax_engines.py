"""The training steps of JAX: the ordinary one, and gradients of each example by vmap."""

import jax
import jax.numpy as jnp

from benchmarks.engines import L2_NORM_CLIP, LEARNING_RATE, NOISE_MULTIPLIER, Prepared
from benchmarks.peers.jax_models import get_model


def prepare(engine, model_name, x, y):
    """Prepares the step of "jax" or "jax_vmap"."""
    init, apply = get_model(model_name)
    params = init(jax.random.key(0))
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(params, x, y):
        chosen = jax.nn.log_softmax(apply(params, x))[jnp.arange(len(y)), y]
        return -chosen.mean()

    def plain_gradients(params, x, y, key):
        del key
        return jax.value_and_grad(loss)(params, x, y)

    def private_gradients(params, x, y, key):
        losses, each = jax.vmap(jax.value_and_grad(loss), (None, 0, 0))(
            params, x[:, None], y[:, None]
        )
        leaves, structure = jax.tree.flatten(each)
        squares = sum(jnp.square(g).reshape(len(x), -1).sum(1) for g in leaves)
        factors = jnp.minimum(1.0, L2_NORM_CLIP * jax.lax.rsqrt(squares))
        keys = jax.random.split(key, len(leaves))
        noised = [
            jnp.tensordot(factors, g, 1)
            + NOISE_MULTIPLIER * L2_NORM_CLIP * jax.random.normal(k, g.shape[1:])
            for g, k in zip(leaves, keys, strict=True)
        ]
        return losses.mean(), jax.tree.unflatten(structure, [g / len(x) for g in noised])

    gradients = plain_gradients if engine == "jax" else private_gradients

    @jax.jit
    def step(params, key, x, y):
        key, now = jax.random.split(key)
        value, grads = gradients(params, x, y, now)
        return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads), key, value

    key = jax.random.key(1)
    compiled = None

    def trace():
        nonlocal compiled
        compiled = step.lower(params, key, x, y).compile()

    def run():
        nonlocal params, key
        params, key, value = compiled(params, key, x, y)
        jax.block_until_ready(params)
        return float(value)

    return Prepared(
        run=run,
        parameters=sum(p.size for p in jax.tree.leaves(params)),
        versions={"jax": jax.__version__},
        trace=trace,
    )
