"""Franka kitchen: an arm does four tasks in one episode."""

from calql.domains.base import D4RL, Domain, Remote

# SHA-256 of D4RL's files, as others recorded them.
ORIGINALS = {
    "kitchen-complete": Remote(
        f"{D4RL}/kitchen/mini_kitchen_microwave_kettle_light_slider-v0.hdf5",
        sha256="cd797c38cd52dfbe3f960cef73935cc724847abd189e47a703a7a2315ed60a81",
    ),
    "kitchen-partial": Remote(
        f"{D4RL}/kitchen/kitchen_microwave_kettle_light_slider-v0.hdf5",
        sha256="57bfd9c5fe88a7cf702bbaf8b7cd800d30cd869e7f73416007238d26cd859800",
    ),
    "kitchen-mixed": Remote(
        f"{D4RL}/kitchen/kitchen_microwave_kettle_bottomburner_light-v0.hdf5",
        sha256="a30382a50278fdaea2e2d88e5f2836a95bcf9b581d252617872fd6537302721b",
    ),
}

DOMAIN = Domain(
    "kitchen",
    __name__,
    steps_per_s=550.0,
    small={"offline_updates": 16_000, "online_steps": 6_000, "evaluation_episodes": 4},
    small_evaluations=(1, 4),  # they take longest by far
    originals=ORIGINALS,
)
