"""Visual pick-and-place: put an object into a container, from 48x48 images."""

from calql.domains.base import Domain

DOMAIN = Domain(
    "pick-place",
    __name__,
    steps_per_s=3_400.0,
    update_cost=2.0,
    small={"offline_updates": 24_000, "online_steps": 3_000, "evaluation_episodes": 10},
)
