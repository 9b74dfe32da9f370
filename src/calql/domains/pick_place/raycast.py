"""An analytic ray caster of primitives: small images without GL, a few tens of microseconds a primitive.

Every primitive is painted only inside the pixel window that its bounding sphere can touch, onto a
frame with a depth per pixel; what does not move is painted once and copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Image = NDArray[np.uint8]
Hit = tuple[Floats, Floats]  # distance along each ray (inf: missed) and brightness there

LIGHT = np.array([-0.35, -0.45, 0.82], np.float32) / np.float32(np.linalg.norm([-0.35, -0.45, 0.82]))
AMBIENT = np.float32(0.45)
SHADOW = np.float32(0.6)


def vector(values: ArrayLike) -> Floats:
    return np.asarray(values, np.float32)


class Camera:
    """A pinhole camera: one unit ray per pixel from `position` towards `target`."""

    def __init__(self, position: ArrayLike, target: ArrayLike, *, view: float, width: int, height: int) -> None:
        """`view` is the vertical field of view in degrees."""
        self.position = vector(position)
        forward = vector(target) - self.position
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, vector([0, 0, 1]))
        right /= np.linalg.norm(right)
        self.axes = np.stack([right, np.cross(right, forward), forward])  # right, up, forward
        self.width, self.height = width, height
        self.focal = 0.5 * height / np.tan(np.radians(view) / 2.0)  # pixels
        columns = (np.arange(width) + 0.5 - width / 2.0) / self.focal
        rows = (height / 2.0 - np.arange(height) - 0.5) / self.focal
        across, up = np.meshgrid(columns, rows)
        rays = np.stack([across, up, np.ones_like(up)], axis=-1) @ self.axes
        self.rays: Floats = (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).astype(np.float32)
        with np.errstate(divide="ignore"):
            self.inverse_rays: Floats = np.float32(1.0) / self.rays

    def window(self, centre: Floats, radius: float) -> tuple[slice, slice]:
        """The pixels that a sphere can touch: rows and columns, possibly none."""
        across, up, depth = self.axes @ (centre - self.position)
        if depth <= radius:
            return slice(0, self.height), slice(0, self.width)
        reach = self.focal * radius / (depth - radius) + 1.0
        column = self.width / 2.0 + self.focal * across / depth
        row = self.height / 2.0 - self.focal * up / depth
        return _span(row, reach, self.height), _span(column, reach, self.width)


def _span(middle: float, reach: float, size: int) -> slice:
    return slice(min(max(int(middle - reach), 0), size), min(max(int(middle + reach) + 1, 0), size))


class Primitive(Protocol):
    """A shape of one colour that rays can hit."""

    @property
    def colour(self) -> Floats: ...

    @property
    def bounds(self) -> tuple[Floats, float]:
        """Centre and radius of a sphere around it."""

    def hit(self, camera: Camera, rows: slice, columns: slice) -> Hit: ...


@dataclass(frozen=True, eq=False)
class Sphere:
    centre: Floats
    radius: float
    colour: Floats

    @property
    def bounds(self) -> tuple[Floats, float]:
        return self.centre, self.radius

    def hit(self, camera: Camera, rows: slice, columns: slice) -> Hit:
        rays = camera.rays[rows, columns]
        to_centre = self.centre - camera.position
        along = rays @ to_centre
        inside = along * along - (to_centre @ to_centre - self.radius**2)
        distance = np.where(inside >= 0.0, along - np.sqrt(np.maximum(inside, 0.0)), np.inf)
        towards_light = (distance * (rays @ LIGHT) - to_centre @ LIGHT) / self.radius
        return distance, AMBIENT + (1 - AMBIENT) * np.maximum(np.nan_to_num(towards_light, posinf=0.0), 0.0)


@dataclass(frozen=True, eq=False)
class Box:
    """A box along the axes."""

    centre: Floats
    half: Floats
    colour: Floats

    @property
    def bounds(self) -> tuple[Floats, float]:
        return self.centre, float(np.sqrt(self.half @ self.half))

    def hit(self, camera: Camera, rows: slice, columns: slice) -> Hit:
        inverse = camera.inverse_rays[rows, columns]
        offset = self.centre - camera.position
        facing = np.where(offset > 0.0, np.float32(-1.0), np.float32(1.0))  # which of two faces the camera sees
        near, far = (offset - self.half) * inverse, (offset + self.half) * inverse
        near, far = np.minimum(near, far), np.maximum(near, far)
        entered = near.max(axis=-1)
        distance = np.where(entered < far.min(axis=-1), entered, np.inf)
        faces = AMBIENT + (1 - AMBIENT) * np.maximum(facing * LIGHT, 0.0)
        return distance, faces[near.argmax(axis=-1)]


@dataclass(frozen=True, eq=False)
class Cylinder:
    """An upright cylinder."""

    centre: Floats
    radius: float
    half_height: float
    colour: Floats

    @property
    def bounds(self) -> tuple[Floats, float]:
        return self.centre, float(np.hypot(self.radius, self.half_height))

    def hit(self, camera: Camera, rows: slice, columns: slice) -> Hit:
        rays = camera.rays[rows, columns]
        offset = self.centre - camera.position
        flat, flat_offset = rays[..., :2], offset[:2]
        size = np.einsum("rci,rci->rc", flat, flat)
        along = flat @ flat_offset
        inside = along * along - size * (flat_offset @ flat_offset - self.radius**2)
        root = np.sqrt(np.maximum(inside, 0.0))
        enter, leave = (along - root) / size, (along + root) / size
        lid = (offset[2] + self.half_height) / rays[..., 2]  # seen from above
        side_height = enter * rays[..., 2] - offset[2]
        on_side = (inside > 0.0) & (np.abs(side_height) <= self.half_height)
        on_lid = (inside > 0.0) & (lid >= enter) & (lid <= leave)
        distance = np.where(on_lid, lid, np.where(on_side, enter, np.inf))
        towards_light = (enter * (flat @ LIGHT[:2]) - flat_offset @ LIGHT[:2]) / self.radius
        brightness = np.where(on_lid, LIGHT[2], np.maximum(towards_light, 0.0))
        return distance, AMBIENT + (1 - AMBIENT) * brightness


class Frame:
    """Colours (0..1) and depths of an image under way, over a floor at z = 0."""

    def __init__(self, camera: Camera, floor_colour: Floats, sky_colour: Floats) -> None:
        self.camera = camera
        down = camera.rays[..., 2]
        with np.errstate(divide="ignore"):
            distance = np.where(down < 0.0, -camera.position[2] / down, np.inf)
        seen = np.isfinite(distance)
        self.floor: Floats = np.where(seen, distance, np.float32(1e6))
        self.ground = camera.position[:2] + self.floor[..., None] * camera.rays[..., :2]  # xy under each pixel
        self.depth = self.floor.copy()
        self.colours = np.where(seen[..., None], floor_colour, sky_colour).astype(np.float32)

    def copy(self) -> Frame:
        """An own image over the same floor."""
        other = object.__new__(Frame)
        other.camera, other.floor, other.ground = self.camera, self.floor, self.ground
        other.depth, other.colours = self.depth.copy(), self.colours.copy()
        return other

    def paint(self, primitives: Iterable[Primitive]) -> None:
        for primitive in primitives:
            rows, columns = self.camera.window(*primitive.bounds)
            distance, brightness = primitive.hit(self.camera, rows, columns)
            depth = self.depth[rows, columns]
            nearer = distance < depth
            depth[nearer] = distance[nearer]
            self.colours[rows, columns][nearer] = brightness[nearer, None] * primitive.colour

    def shade(self, xy: Floats, radius: float) -> None:
        """The shadow of something above, on the floor where it is bare: what tells its height."""
        centre = np.append(xy, np.float32(0.0)).astype(np.float32)
        rows, columns = self.camera.window(centre, radius)
        offset = self.ground[rows, columns] - xy
        dark = np.einsum("rci,rci->rc", offset, offset) < radius**2
        dark &= self.depth[rows, columns] == self.floor[rows, columns]
        self.colours[rows, columns][dark] *= SHADOW

    def image(self) -> Image:
        """8-bit colours [row, column, channel]."""
        return (np.minimum(self.colours, 1.0) * 255.0).astype(np.uint8)
