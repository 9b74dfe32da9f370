"""The ray caster: where shapes land in the image, what hides what, and how bright they are."""

from __future__ import annotations

import numpy as np
import pytest

from calql.domains.pick_place.raycast import (
    AMBIENT,
    LIGHT,
    SHADOW,
    Box,
    Camera,
    Cylinder,
    Frame,
    Primitive,
    Sphere,
    vector,
)

WHITE, RED = vector([1, 1, 1]), vector([1, 0, 0])
BLACK = vector([0, 0, 0])


@pytest.fixture
def camera() -> Camera:
    return Camera([0.0, -1.0, 1.0], [0.0, 0.0, 0.0], view=40.0, width=33, height=33)


def shapes(at: np.ndarray, size: float) -> list[Primitive]:
    return [
        Sphere(at, size, WHITE),
        Box(at, vector([size, size, size]), WHITE),
        Cylinder(at, size, size, WHITE),
    ]


def test_the_target_is_in_the_middle_and_rays_have_unit_length(camera: Camera) -> None:
    assert np.allclose(np.linalg.norm(camera.rays, axis=-1), 1.0, atol=1e-6)
    assert np.allclose(camera.rays[16, 16], vector([0, 1, -1]) / np.sqrt(2), atol=1e-6)
    assert camera.rays[16, 32, 0] > 0 > camera.rays[16, 0, 0]  # right is +x
    assert camera.rays[0, 16, 2] > camera.rays[32, 16, 2]  # up is up


def test_distances_are_analytic(camera: Camera) -> None:
    at, middle = vector([0, 0, 0]), (slice(16, 17), slice(16, 17))
    sphere, box, cylinder = (shape.hit(camera, *middle)[0].item() for shape in shapes(at, 0.1))
    assert sphere == pytest.approx(np.sqrt(2) - 0.1, abs=1e-5)
    assert box == pytest.approx(0.9 * np.sqrt(2), abs=1e-5)
    assert cylinder == pytest.approx(0.9 * np.sqrt(2), abs=1e-5)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("at", [(0.0, 0.0, 0.1), (0.3, 0.1, 0.2), (-0.35, -0.2, 0.0), (0.9, 0.0, 0.0)])
def test_the_pixel_window_never_cuts_a_shape(camera: Camera, kind: int, at: tuple[float, ...]) -> None:
    shape = shapes(vector(at), 0.07)[kind]
    everywhere = np.isfinite(shape.hit(camera, slice(0, 33), slice(0, 33))[0])
    rows, columns = camera.window(*shape.bounds)
    inside = np.zeros_like(everywhere)
    inside[rows, columns] = True
    assert not (everywhere & ~inside).any()


def test_the_nearer_shape_hides_the_other_in_either_order(camera: Camera) -> None:
    near, far = Sphere(vector([0, -0.3, 0.3]), 0.05, RED), Box(vector([0, 0.1, 0]), vector([0.3, 0.1, 0.1]), WHITE)
    images = []
    for order in ((near, far), (far, near)):
        frame = Frame(camera, BLACK, BLACK)
        frame.paint(order)
        images.append(frame.image())
    assert np.array_equal(*images)
    assert images[0][16, 16, 0] > 0
    assert images[0][16, 16, 1] == 0


def test_brightness_is_lambertian(camera: Camera) -> None:
    lid = Cylinder(vector([0, 0, 0]), 0.2, 0.05, WHITE).hit(camera, slice(16, 17), slice(16, 17))[1].item()
    assert lid == pytest.approx(AMBIENT + (1 - AMBIENT) * LIGHT[2], abs=1e-6)
    box = Box(vector([0, 0, 0]), vector([0.2, 0.2, 0.2]), WHITE)
    _, brightness = box.hit(camera, slice(0, 33), slice(0, 33))
    expected = {round(float(AMBIENT + (1 - AMBIENT) * max(v, 0.0)), 5) for v in (LIGHT[2], -LIGHT[1])}
    hit = np.isfinite(box.hit(camera, slice(0, 33), slice(0, 33))[0])
    assert expected <= {round(float(value), 5) for value in brightness[hit]}


def test_a_shadow_darkens_the_bare_floor_only(camera: Camera) -> None:
    frame = Frame(camera, WHITE, BLACK)
    frame.paint([Sphere(vector([0.1, 0, 0.02]), 0.05, RED)])
    before = frame.colours.copy()
    frame.shade(vector([0.0, 0.0]), 0.12)
    changed = np.any(frame.colours != before, axis=-1)
    assert changed.any()
    assert np.allclose(frame.colours[changed], SHADOW)
    assert not changed[frame.depth != frame.floor].any()


def test_a_copy_is_independent(camera: Camera) -> None:
    frame = Frame(camera, WHITE, BLACK)
    other = frame.copy()
    other.paint(shapes(vector([0, 0, 0]), 0.1))
    assert (frame.depth == frame.floor).all()
