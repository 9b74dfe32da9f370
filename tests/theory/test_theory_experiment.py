"""The bookkeeping of the experiment: every number lands under the condition and family it belongs to."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from small_mdps import drawn, quick_jit

from calql.theory import experiment
from calql.theory.algorithm import VARIANTS
from calql.theory.conditions import CONDITIONS, Instance, make_instance
from calql.theory.experiment import MEASURES, Scale, simulate
from calql.theory.mdp import policy_value


def label(instance: Instance) -> float:
    """A number that tells conditions apart: the value of the reference, and how evenly the data is spread."""
    value = float(policy_value(instance.mdp, instance.reference_policy))
    return value + float((np.asarray(instance.offline) ** 2).sum())


@pytest.mark.slow
def test_growth_is_filed_under_its_own_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    made = quick_jit(experiment._make_problems.__wrapped__, static_argnums=0)
    monkeypatch.setattr(experiment, "_make_problems", made)
    scale = Scale(instances=2, seeds=1, episodes=8, scaling_instances=2, families=("chain",))
    shape = (scale.seeds, len(VARIANTS), 1, len(MEASURES))

    def fake_jobs(jobs, title, report):  # type: ignore[no-untyped-def]
        return [np.full(shape, label(instance)) for instance, _, _ in jobs]

    curves = np.zeros((len(CONDITIONS), 1, 2, *shape))
    growth = experiment._run_growth(scale, (4, 8), curves, fake_jobs, print)
    for c, condition in enumerate(CONDITIONS.values()):
        for n in range(2):
            mdp = experiment._make_problems("chain", experiment._key("chain", n)[None], 8.0)["near-optimal"].mdp
            mine = make_instance(jax.tree.map(lambda leaf: leaf[0], mdp), condition)
            assert growth[c, 0, n, 0, 0, 0] == pytest.approx(label(mine), rel=1e-5)


@pytest.mark.slow
def test_split_adds_up_and_a_smaller_budget_stops_the_sums() -> None:
    instance = make_instance(drawn("chain"), CONDITIONS["near-optimal"])
    run = quick_jit(simulate, static_argnames=("checkpoints", "seeds"))
    total = np.asarray(run(instance, jax.random.key(0), 6, checkpoints=(3, 6, 12), seeds=2))
    assert total.shape == (2, len(VARIANTS), 3, len(MEASURES))
    np.testing.assert_allclose(total[..., 0], total[..., 1] + total[..., 2], atol=1e-4)
    np.testing.assert_allclose(total[..., 1, :3], total[..., 2, :3], atol=1e-5)
