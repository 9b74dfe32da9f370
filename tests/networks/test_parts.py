"""Cameras and vectors in one row: packed and taken apart byte by byte, each camera with an encoder that learns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.methods.base import Transitions, augment
from calql.networks import Spec, make_encoder
from calql.networks.parts import Several, apart, layout_in, shifted
from calql.system.layout import Layout, Piece, matching

SMALL = Layout.of([Piece("state", (2,), image=False), Piece("eye", (1, 2, 1), image=True)])
LARGE = Layout.of(
    [
        Piece("arm", (3,), image=False),
        Piece("front", (12, 16, 3), image=True),
        Piece("wrist", (8, 8, 1), image=True),
        Piece("hand", (1,), image=False),
    ]
)


def rows(layout: Layout, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parts = {
        p.name: rng.integers(0, 256, (count, *p.shape), np.uint8)
        if p.image
        else rng.normal(3.0, 2.0, (count, *p.shape))
        for p in layout.pieces
    }
    return layout.packed_rows(parts)


def test_a_row_by_hand() -> None:
    """Cameras first, then the little-endian bytes of each float32: 1.0 is 0x3f800000, -2.0 is 0xc0000000."""
    row = SMALL.packed_rows({"state": [1.0, -2.0], "eye": np.array([[7, 250]], np.uint8)})
    assert row.tolist() == [7, 250, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]
    assert row.dtype == np.uint8
    assert SMALL.row_shape == (10,)
    assert SMALL.vectors_of(row).tolist() == [1.0, -2.0]
    assert SMALL.place_of(1) == "number 1 of 'state'"


@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_taken_apart_on_the_host_and_on_the_device(leading: tuple[int, ...]) -> None:
    packed = rows(LARGE, int(np.prod(leading, dtype=int))).reshape(*leading, *LARGE.row_shape)
    host, device = LARGE.apart(packed), apart(LARGE, jnp.asarray(packed))
    for piece in LARGE.pieces:
        assert host[piece.name].shape == (*leading, *piece.shape)
        assert np.array_equal(host[piece.name], device[piece.name])
    assert np.array_equal(LARGE.packed_rows(host), packed)


def test_vectors_alone_are_numbers_and_a_camera_alone_is_itself() -> None:
    vectors = Layout.of([Piece("b", (2,), image=False), Piece("a", (1,), image=False)])
    assert vectors.packed_rows({"a": [[3.0]], "b": [[1.0, 2.0]]}).tolist() == [[1.0, 2.0, 3.0]]
    camera = Layout.of([Piece("eye", (1, 2, 1), image=True)])
    assert camera.packed_rows({"eye": np.array([[7, 250]], np.uint8)}).shape == (1, 2, 1)
    assert not camera.packed


def test_words_and_back() -> None:
    assert Layout.from_words(LARGE.in_words()) == LARGE
    strange = [{"name": "a", "shape": [-1, -1, 3], "dtype": "uint8"}], [{"name": "a", "shape": [8], "dtype": "uint8"}]
    for bad in ([], *strange, [*LARGE.in_words(), LARGE.in_words()[0]]):
        with pytest.raises(ValueError):
            Layout.from_words(bad)


def test_what_does_not_fit_is_said() -> None:
    eye = np.zeros((1, 2, 1), np.uint8)
    for parts, words in (
        ({"state": [1.0], "eye": eye}, "'state' has shape"),
        ({"state": [1.0, 2.0], "eye": eye.astype(np.float32)}, "'eye' is float32"),
    ):
        with pytest.raises(ValueError, match=words):
            SMALL.packed_rows(parts)


def test_names_that_mean_the_same() -> None:
    assert matching("images.front", ["pixels/front", "state"]) == "pixels/front"
    assert matching("front", ["left/front", "right/front"]) is None
    assert matching("front", ["left/front", "front"]) == "front"


def test_shifts_move_cameras_and_leave_vectors_alone() -> None:
    packed = rows(LARGE, 32)
    moved = np.asarray(shifted(LARGE, jnp.asarray(packed), jax.random.key(0)))
    before, after = LARGE.apart(packed), LARGE.apart(moved)
    for name in ("arm", "hand"):
        assert np.array_equal(before[name], after[name])
    for name in ("front", "wrist"):
        still = (before[name] == after[name]).reshape(32, -1).all(axis=1)
        assert still.mean() < 0.2  # one in 81 stays by chance
        inside = {tuple(pixel) for pixel in before[name][0].reshape(-1, before[name].shape[-1])}
        assert {tuple(pixel) for pixel in after[name][0].reshape(-1, after[name].shape[-1])} <= inside


@pytest.mark.slow
def test_a_batch_is_shifted_by_what_its_networks_take_apart() -> None:
    spec = Spec.of(rows(LARGE, 20), np.zeros((20, 2)), layout=LARGE)
    encoder, _ = make_encoder(spec, jax.random.key(0))
    batch = jnp.asarray(rows(LARGE, 6)).reshape(2, 3, -1)
    zeros = jnp.zeros((2, 3))
    moved = augment(Transitions(batch, zeros, zeros, batch, zeros, zeros), jax.random.key(1), {"any": (encoder,)})
    assert layout_in({"any": (encoder,)}) == LARGE
    assert np.array_equal(LARGE.vectors_of(np.asarray(moved.observations)), LARGE.vectors_of(np.asarray(batch)))
    assert not np.array_equal(moved.observations, batch)
    assert not np.array_equal(moved.observations, moved.next_observations)  # each by its own


@pytest.mark.slow
def test_every_camera_has_an_encoder_that_learns() -> None:
    packed = rows(LARGE, 20)
    spec = Spec.of(packed, np.zeros((20, 2)), layout=LARGE)
    encoder, features = make_encoder(spec, jax.random.key(0))
    assert isinstance(encoder, Several)
    assert features == 2 * 128 + 4
    first = {name: camera.encoder.kernels[0].shape for name, camera in encoder.cameras.items()}  # type: ignore[attr-defined]
    assert first == {"front": (3, 3, 3, 32), "wrist": (3, 3, 1, 32)}
    weights = jnp.asarray(np.random.default_rng(1).normal(size=features))
    gradient = jax.grad(lambda network: jnp.sum(network(jnp.asarray(packed)) @ weights))(encoder)
    for name in ("front", "wrist"):
        assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradient.cameras[name])), name
    by_name = encoder({name: jnp.asarray(part) for name, part in LARGE.apart(packed).items()})
    assert np.array_equal(by_name, encoder(jnp.asarray(packed)))


@pytest.mark.slow
def test_vectors_pass_as_they_are_or_standardised() -> None:
    packed = rows(LARGE, 50)
    numbers = LARGE.vectors_of(packed)
    spec = Spec.of(packed, np.zeros((50, 2)), layout=LARGE)
    assert np.allclose(spec.mean, numbers.mean(axis=0))
    plain, _ = make_encoder(spec, jax.random.key(0))
    scaled, _ = make_encoder(spec, jax.random.key(0), standardise=True)
    assert np.array_equal(plain(jnp.asarray(packed))[:, 256:], numbers)
    found = np.asarray(scaled(jnp.asarray(packed)))[:, 256:]
    assert np.allclose(found, (numbers - numbers.mean(axis=0)) / (numbers.std(axis=0) + 1e-3), atol=1e-4)
    assert np.array_equal(scaled(jnp.asarray(packed))[:, :256], plain(jnp.asarray(packed))[:, :256])
