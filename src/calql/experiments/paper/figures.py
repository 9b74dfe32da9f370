"""Which tasks, methods and variants the figures show."""

from __future__ import annotations

from collections.abc import Mapping

from calql.experiments.paper.claims import NARROW, PAIR, UNCALIBRATED
from calql.experiments.paper.matrices import ADROIT, ANTMAZE, IMAGES, KITCHEN

DOMAINS: Mapping[str, tuple[str, ...]] = {  # of the page of all results
    "point-maze": ("point-maze-narrow",),
    "antmaze": (*ANTMAZE, NARROW),
    "adroit": ADROIT,
    "kitchen": KITCHEN,
    "pick-place": IMAGES,
    "locomotion": ("hopper-medium", "walker2d-medium-replay", "halfcheetah-medium-expert"),
}
TASKS = tuple(task for tasks in DOMAINS.values() for task in tasks)
AUTHORS = "authors' program"  # the variant of rows that it made

UNLEARNS = (UNCALIBRATED,)  # figure 3
DIPS = PAIR  # figure 12
TEMPERATURES = ("temperature",)  # figure 10: how its variants begin
UPDATES_AND_ASCENT = ("utd", "aggressive")  # figure 11
