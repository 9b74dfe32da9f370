"""Coefficients and ranks: by hand, against members of the class, and in order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_mdps import drawn, two_state_chain

from calql.theory.conditions import CONDITIONS, Instance, make_instance
from calql.theory.measures import (
    Branches,
    bilinear_rank,
    branches,
    class_boxes,
    coefficient,
    error_ratio,
    in_double,
    needed_constant,
    quantities,
)

EXACT = ("chain", "lock")


def instance_of(family: str, condition: str, seed: int = 0) -> Instance:
    return make_instance(drawn(family, seed), CONDITIONS[condition])


def chain_with(offline: np.ndarray, reference: np.ndarray) -> Instance:
    return make_instance(two_state_chain(), lambda *_: (jnp.asarray(reference), jnp.asarray(offline)))


def test_coefficients_of_the_chain_by_hand() -> None:
    """pi* visits (0, move) then (1, stay). nu is 1/4 everywhere: C^2 = 4 + 4.

    The reference stays: at the last step every reward is the same as Q*, so that step is pinned; and
    Q^ref_0(0, move) = .2 + 1 = Q*_0(0, move) is pinned too. Nothing is left: C^ref = 0.
    """
    staying = np.zeros((2, 2, 2), np.float32)
    staying[..., 0] = 1.0
    found = quantities(chain_with(np.full((2, 2, 2), 0.25, np.float32), staying))
    assert found.plain_coefficient == pytest.approx(np.sqrt(8), rel=1e-6)
    assert found.plain_witness == pytest.approx(np.sqrt(8), rel=1e-4)
    assert found.calibrated_coefficient == 0.0


def test_calibrated_coefficient_of_the_chain_by_hand() -> None:
    """A reference that always moves: Q^ref_0(0, move) = .2 + 0 < 1.2 is free; the last step is pinned: C^ref = 2."""
    moving = np.zeros((2, 2, 2), np.float32)
    moving[..., 1] = 1.0
    found = quantities(chain_with(np.full((2, 2, 2), 0.25, np.float32), moving))
    assert found.calibrated_coefficient == pytest.approx(2.0, rel=1e-6)
    assert found.calibrated_witness == pytest.approx(2.0, rel=1e-4)


def test_no_coverage_is_infinite() -> None:
    offline = np.zeros((2, 2, 2), np.float32)
    offline[:, 0, 0] = 1.0  # only (0, stay)
    uniform = np.full((2, 2, 2), 0.5, np.float32)
    assert quantities(chain_with(offline, uniform)).plain_coefficient == np.inf


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("family", ["random-linear", "chain", "lock"])
def test_calibration_never_raises_the_coefficient_nor_the_rank(family: str, condition: str) -> None:
    found = quantities(instance_of(family, condition))
    assert found.calibrated_coefficient <= found.plain_coefficient * (1 + 1e-9)
    assert found.calibrated_rank <= found.plain_rank <= found.parameters
    if family in EXACT:
        assert found.plain_witness == pytest.approx(found.plain_coefficient, rel=1e-3)
        assert found.calibrated_witness == pytest.approx(found.calibrated_coefficient, rel=1e-3)


@pytest.mark.parametrize("family", ["random-linear", "lock"])
def test_no_sampled_member_exceeds_its_coefficient(family: str) -> None:
    """The definition itself: the ratio of random members of either class, however computed, stays below."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        instance = in_double(instance_of(family, "broad-and-poor", seed=3))
        features = np.asarray(instance.mdp.feature_table()).reshape(-1, class_boxes(instance)[0].low.shape[-1])
        for box in class_boxes(instance):
            limit = coefficient(instance, box)
            for _ in range(40):
                theta = box.high - (box.high - box.low) * rng.random(box.low.shape) * rng.random()
                f = (theta @ features.T).reshape(instance.optimal_q.shape)
                assert error_ratio(instance, f) <= limit * (1 + 1e-6)


def test_ranks_are_the_features_and_settle_with_more_members() -> None:
    with jax.enable_x64(True):
        instance = in_double(instance_of("random-linear", "broad-and-poor"))
        plain, calibrated = class_boxes(instance)
        assert bilinear_rank(instance, plain, 0) == 6
        few, many = (bilinear_rank(instance, calibrated, 0, members) for members in (96, 192))
        assert few == many


@pytest.mark.slow
def test_branches_and_their_constant() -> None:
    found = quantities(instance_of("lock", "near-optimal"))
    at_100, at_400 = (branches(found, 6, k) for k in (100, 400))
    assert at_400.reference_gap == pytest.approx(4 * at_100.reference_gap)
    growth = np.sqrt(4 * np.log1p(2400) / np.log1p(600))
    assert at_400.coverage == pytest.approx(growth * at_100.coverage)
    parts = Branches(coverage=10.0, reference_gap=3.0, exploration=2.0)
    constant = needed_constant(5.0, parts)
    assert constant == pytest.approx(1.0)  # 5 = 3 + 1 * 2, and 1 * 10 covers it too
    assert parts.bound(constant) == pytest.approx(5.0)
    assert parts.bound(0.1) == pytest.approx(1.0)
