"""Attention in other libraries than PyTorch, right and wrong, for the tests of the adapters.

One text with ``xp`` for the library: NumPy and JAX spell these operations alike.
"""

RIGHT_AND_WRONG = """
import {module} as xp
import {root}


def softmax(x):
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def right_attention(q, k, v, allowed_mask=None):
    scores = q @ xp.swapaxes(k, -1, -2) / xp.sqrt(q.shape[-1])
    if allowed_mask is not None:
        scores = xp.where(allowed_mask, scores, -1e30)
    return softmax(scores) @ v


def unscaled_attention(q, k, v):
    return softmax(q @ xp.swapaxes(k, -1, -2)) @ v


class RightAttention:
    def __call__(self, q, k, v):
        scores = xp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        return xp.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


class TransposedAttention:
    def __call__(self, q, k, v):
        scores = xp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        powers = xp.exp(scores - xp.max(scores, axis=-2, keepdims=True))
        return xp.einsum("bhqk,bhkd->bhqd", powers / xp.sum(powers, axis=-2, keepdims=True), v)
"""

NUMPY = RIGHT_AND_WRONG.format(module="numpy", root="math")
JAX = (
    RIGHT_AND_WRONG.format(module="jax.numpy", root="jax")
    + """

@jax.jit
def compiled_attention(q, k, v):
    return jax.nn.softmax(q @ xp.swapaxes(k, -1, -2) / xp.sqrt(q.shape[-1])) @ v


@jax.jit
def compiled_queries_attention(q, k, v):
    return jax.nn.softmax(q @ xp.swapaxes(k, -1, -2) / xp.sqrt(q.shape[-1]), axis=-2) @ v


def right_under_a_branch_attention(q, k, v, causal=False):
    scores = q @ xp.swapaxes(k, -1, -2) / xp.sqrt(q.shape[-1])
    if causal:
        scores = xp.where(xp.tri(*scores.shape[-2:], dtype=bool), scores, -xp.inf)
    return jax.nn.softmax(scores) @ v
"""
)


def definitions(text, folder, name):
    """Write a text into a file and import it, so that its source can be read."""
    import importlib.util
    import sys

    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the sources of classes are looked for there
    spec.loader.exec_module(module)
    return module


def line_of(text, words):
    """Return the number of the first line that holds these words."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)
