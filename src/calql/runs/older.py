"""Policies of runs that have no `policy/`: the whole run is built again, up to its last checkpoint."""

from __future__ import annotations

from pathlib import Path

from calql.engine.rollout import policy_of
from calql.engine.run import Run
from calql.results import Silent
from calql.runs import preparation, record
from calql.runs.policy_folder import Choose, Policies


def policies_of_checkpoint(folder: Path, choose: Choose = tuple) -> Policies:
    """Needs the data and what the environment is named by, as training does."""
    experiment, _ = record.from_config(folder)
    plan = preparation.plan(experiment)
    chosen = choose(plan.members)
    run = Run(plan, folder, Silent())
    try:
        run.restore()
        saved = run.saved
    finally:
        run.close()
    of_member = {member: policy_of(saved.policies, plan.members.index(member)) for member in chosen}
    described = record.describe_policies(experiment, plan) | record.standing(saved)
    return Policies(run.program.method, plan.inputs.spec, experiment.action_space, of_member, described)
