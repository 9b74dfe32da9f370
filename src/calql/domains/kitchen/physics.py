"""The kitchen's model without what changes no state: every position and velocity stays the same to the bit.

More than half of a step goes to finding contacts, most of it to pairs that are far apart (decision 45).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.common.simulation import mujoco

SLACK = 0.01  # metres that bodies have to stay apart to count as out of reach

Numbers = NDArray[np.float64]


def lean_model(path: str) -> mujoco.MjModel:
    """Without geoms that are only seen, with close boxes around what stands still, without pairs out of reach."""
    spec = mujoco.MjSpec.from_file(path)
    spec.compiler.discardvisual = True
    full = spec.compile()
    _box_closely(spec, full)
    for still, moving in out_of_reach(full):
        spec.add_exclude(bodyname1=still, bodyname2=moving)
    return spec.compile()


def _box_closely(spec: Any, full: mujoco.MjModel) -> None:
    """Sort the geoms of a body that stands still into boxes along its own axes.

    MuJoCo lays the boxes with which it finds contacts along the principal axes of inertia. Those of the counters are
    askew, so that nearly all of their boxes reach into the arm. What stands still needs no inertia; its mass and centre
    stay, because the motion of what hangs on it is reckoned from there.
    """
    for body in spec.bodies:
        if full.body_weldid[body.id] == 0 and full.body_geomnum[body.id] > 1:
            body.explicitinertial = True
            body.mass, body.ipos = full.body_mass[body.id], full.body_ipos[body.id]
            body.inertia, body.iquat = full.body_inertia[body.id], (1.0, 0.0, 0.0, 0.0)


def out_of_reach(model: mujoco.MjModel) -> list[tuple[str, str]]:
    """Bodies that stand still, and those on hinges that never meet them, whatever the angles of the hinges."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    balls = {body: ball for body in range(1, model.nbody) if (ball := _ball(model, data, body)) is not None}
    return [
        (model.body(still).name, model.body(moving).name)
        for still in _named(model)
        for moving in _named(model)
        if model.body_weldid[still] == 0
        and moving in balls
        and _may_touch(model, still, moving)
        and all(_distance(model, data, geom, balls[moving][0]) > balls[moving][1] for geom in _geoms(model, still))
    ]


def _may_touch(model: mujoco.MjModel, one: int, other: int) -> bool:
    """Whether any contact between two bodies would count."""
    kinds, meets = model.body_contype, model.body_conaffinity
    return bool(kinds[one] & meets[other] or kinds[other] & meets[one])


def _named(model: mujoco.MjModel) -> list[int]:
    """Bodies that can be spoken of and have geoms."""
    return [body for body in range(model.nbody) if model.body(body).name and model.body_geomnum[body]]


def _geoms(model: mujoco.MjModel, body: int) -> range:
    first = int(model.body_geomadr[body])
    return range(first, first + int(model.body_geomnum[body]))


def _ball(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> tuple[Numbers, float] | None:
    """A ball that a body never leaves: around the first of the hinges it hangs on, as wide as the chain is long.

    None if it stands still, or hangs on another joint than a hinge.
    """
    joints = list(_joints_above(model, body))
    if not joints or any(model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_HINGE for joint in joints):
        return None
    anchors = data.xanchor[joints]  # from the body up: each is fixed to the link below and to the one above
    chain = float(np.linalg.norm(np.diff(anchors, axis=0), axis=1).sum())
    own = [
        np.linalg.norm(data.geom_xpos[geom] - anchors[0]) + model.geom_rbound[geom] + model.geom_margin[geom]
        for geom in _geoms(model, body)
    ]
    return anchors[-1].copy(), chain + float(max(own, default=0.0)) + SLACK


def _joints_above(model: mujoco.MjModel, body: int) -> Iterator[int]:
    """The joints that a body hangs on, from its own up."""
    while body:
        first = int(model.body_jntadr[body])
        yield from reversed(range(first, first + int(model.body_jntnum[body])))
        body = int(model.body_parentid[body])


def _distance(model: mujoco.MjModel, data: mujoco.MjData, geom: int, point: Numbers) -> float:
    """From a point to a geom's box, or to a plane, less the margin within which contacts count."""
    local = data.geom_xmat[geom].reshape(3, 3).T @ (point - data.geom_xpos[geom])
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
        return float(local[2] - model.geom_margin[geom])
    box = model.geom_aabb[geom]
    outside = np.maximum(np.abs(local - box[:3]) - box[3:], 0.0)
    return float(np.linalg.norm(outside) - model.geom_margin[geom])
