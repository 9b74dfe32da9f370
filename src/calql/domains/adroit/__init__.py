"""Adroit binary: a dexterous hand that turns a pen, opens a door or relocates a ball."""

from calql.domains.base import Domain, Remote

DOMAIN = Domain(
    "adroit",
    __name__,
    steps_per_s=3_600.0,
    small={"offline_updates": 20_000, "online_steps": 14_000, "evaluation_episodes": 10},
    small_tasks={"pen-binary": {"online_steps": 8_000}, "relocate-binary": {"online_steps": 6_000}},
    originals={
        f"{hand}-binary": Remote(minari=f"D4RL/{hand}/human-v2", ready=False) for hand in ("pen", "door", "relocate")
    },
)
