"""A causal transformer over return, observation and action: the trunk of decision transformers.

A step is three tokens (return-to-go, observation, action); an action is predicted from the tokens up
to its observation. Attention looks back only, so steps after the last real one change nothing before
them and need no mask. Steps before the first real one (padding on the left, as the authors of online
decision transformers have it in training) do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.actors.tanh_gaussian import TanhGaussian
from calql.networks.initialisers import Initialiser, linear
from calql.networks.mlp import Norm, Precision, drop_out
from calql.networks.products import asked_of_xla, dtype_of

LOG_STD_RANGE = (-5.0, 2.0)
INSIDE = 1.0 - 1e-6  # of the way to the edge of the box: actions, logged or played, go no further
EPSILON = 1e-5  # of layer norms, as in GPT-2
INITIAL_STD = 0.02  # of the blocks' kernels, as in GPT-2
HIDDEN_SCORE = -1e4  # of tokens that attention does not look at, and what padding is lowered by


class Affine(eqx.Module):
    """x @ kernel + bias over any leading axes, in the given precision."""

    kernel: jax.Array  # [inputs, outputs]
    bias: jax.Array

    def __init__(self, inputs: int, outputs: int, *, key: jax.Array, start: Initialiser | None = None) -> None:
        if start is None:
            self.kernel, self.bias = INITIAL_STD * jax.random.normal(key, (inputs, outputs)), jnp.zeros(outputs)
        else:
            layer = linear(inputs, outputs, key, start, 1.0)
            assert layer.bias is not None
            self.kernel, self.bias = layer.weight.T, layer.bias

    def __call__(self, x: jax.Array, precision: Precision = "float32") -> jax.Array:
        dtype = dtype_of(precision)
        product = jnp.matmul(x.astype(dtype), self.kernel.astype(dtype), precision=asked_of_xla(precision))
        return product + self.bias.astype(dtype)


class Block(eqx.Module):
    """Causal attention and a two-layer perceptron, each behind a layer norm and added to what came in.

    Products are in the chosen precision; the sum that runs through the blocks, norms and softmax in float32.
    """

    norm_attention: Norm
    query_key_value: Affine
    attended: Affine
    norm_perceptron: Norm
    up: Affine
    down: Affine
    heads: int = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: jax.Array, precision: Precision = "float32") -> None:
        keys = jax.random.split(key, 4)
        self.norm_attention, self.norm_perceptron = Norm(width, EPSILON), Norm(width, EPSILON)
        self.query_key_value = Affine(width, 3 * width, key=keys[0])
        self.attended = Affine(width, width, key=keys[1])
        self.up = Affine(width, 4 * width, key=keys[2])
        self.down = Affine(4 * width, width, key=keys[3])
        self.heads, self.precision = heads, precision

    def __call__(self, x: jax.Array, dropout: float, key: jax.Array | None, real: jax.Array | None = None) -> jax.Array:
        """[..., token, width] to the same; `real` [..., token] is 0 for padding before the first token."""
        keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
        attended = self.attention(self.norm_attention(x), dropout, keys[0], real)
        x = x + _maybe_drop(self.attended(attended, self.precision), dropout, keys[1], "keep/attended")
        hidden = jax.nn.relu(self.up(self.norm_perceptron(x), self.precision))
        return x + _maybe_drop(self.down(hidden, self.precision), dropout, keys[2], "keep/perceptron")

    def attention(self, x: jax.Array, dropout: float, key: jax.Array | None, real: jax.Array | None) -> jax.Array:
        tokens, width = x.shape[-2:]
        asked = asked_of_xla(self.precision)
        parts = self.query_key_value(x, self.precision).reshape(*x.shape[:-1], 3, self.heads, width // self.heads)
        query, keys, values = (parts[..., part, :, :] for part in range(3))  # [..., token, head, feature]
        products = jnp.einsum("...qhf,...khf->...hqk", query, keys, precision=asked)
        scores = products.astype(jnp.float32) / math.sqrt(width // self.heads)
        causal = jnp.tril(jnp.ones((tokens, tokens), bool))
        scores = jnp.where(causal, scores, HIDDEN_SCORE)
        if real is not None:
            scores = scores + HIDDEN_SCORE * (1.0 - real[..., None, None, :])
        weights = _maybe_drop(jax.nn.softmax(scores, axis=-1), dropout, key, "keep/attention").astype(values.dtype)
        return jnp.einsum("...hqk,...khf->...qhf", weights, values, precision=asked).reshape(x.shape)


class DecisionTransformer(eqx.Module):
    """Squashed-Gaussian actions from returns-to-go, observations and the actions before."""

    encoder: Callable[[jax.Array], jax.Array]
    embed_return: Affine
    embed_observation: Affine
    embed_action: Affine
    embed_order: jax.Array | None  # [time step, width]
    norm_tokens: Norm
    blocks: Block  # every leaf [layer, ...]
    norm_output: Norm
    head_mean: Affine
    head_log_std: Affine
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        *,
        time_steps: int,
        width: int,
        layers: int,
        heads: int,
        dropout: float,
        key: jax.Array,
        precision: Precision = "float32",
    ) -> None:
        """With `time_steps` above 0, tokens know the step of the episode that they are of, up to that many."""
        keys = jax.random.split(key, 7)
        self.encoder = encoder
        self.embed_return = Affine(1, width, key=keys[0], start="torch")
        self.embed_observation = Affine(features, width, key=keys[1], start="torch")
        self.embed_action = Affine(action_dim, width, key=keys[2], start="torch")
        self.embed_order = jax.random.normal(keys[3], (time_steps, width)) if time_steps else None
        self.norm_tokens, self.norm_output = Norm(width, EPSILON), Norm(width, EPSILON)
        of_layers = jax.random.split(keys[4], layers)
        self.blocks = jax.vmap(lambda k: Block(width, heads, key=k, precision=precision))(of_layers)
        self.head_mean = Affine(width, action_dim, key=keys[5], start="orthogonal")
        self.head_log_std = Affine(width, action_dim, key=keys[6], start="orthogonal")
        self.dropout = dropout

    def __call__(
        self,
        returns: jax.Array,
        observations: jax.Array,
        actions: jax.Array,
        timesteps: jax.Array,
        key: jax.Array | None = None,
        real: jax.Array | None = None,
    ) -> TanhGaussian:
        """The action at each step [..., step, action]; with a key, with dropout.

        `real` [..., step] is 0 for steps of padding before the first.
        """
        embedded = [
            self.embed_return(returns[..., None]),
            self.embed_observation(self.encoder(observations)),
            self.embed_action(actions),
        ]
        if self.embed_order is not None:
            order = self.embed_order[jnp.clip(timesteps, 0, self.embed_order.shape[0] - 1)]
            embedded = [e + order for e in embedded]
        tokens = jnp.stack(embedded, axis=-2)  # [..., step, 3, width]
        x = self.norm_tokens(tokens.reshape(*tokens.shape[:-3], -1, tokens.shape[-1]))
        x = self.trunk(x, key, None if real is None else jnp.repeat(real, 3, axis=-1))
        at_states = self.norm_output(x)[..., 1::3, :]
        low, high = LOG_STD_RANGE
        log_std = low + 0.5 * (high - low) * (jnp.tanh(self.head_log_std(at_states)) + 1.0)
        return TanhGaussian(self.head_mean(at_states), log_std, INSIDE)

    def trunk(self, x: jax.Array, key: jax.Array | None, real: jax.Array | None = None) -> jax.Array:
        """The blocks one after the other, as one compiled loop."""
        layers = self.blocks.up.kernel.shape[0]
        keys = None if key is None else jax.random.split(key, layers + 1)
        x = _maybe_drop(x, self.dropout, None if keys is None else keys[-1], "keep/embedding")
        of_layers = None if keys is None else keys[:-1]

        def layer(x: jax.Array, inputs: tuple[Block, jax.Array | None]) -> tuple[jax.Array, None]:
            block, layer_key = inputs
            return block(x, self.dropout, layer_key, real), None

        return jax.lax.scan(layer, x, (self.blocks, of_layers))[0]


def _maybe_drop(x: jax.Array, rate: float, key: jax.Array | None, name: str) -> jax.Array:
    return x if key is None or not rate else drop_out(x, rate, key, name)
