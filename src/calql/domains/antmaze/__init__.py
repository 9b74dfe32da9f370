"""AntMaze: walk an ant through a maze to a goal that it does not see."""

from calql.domains.base import D4RL, Domain, Remote


def _original(maze: str, starts: bool, goals: bool) -> Remote:
    name = f"Ant_maze_{maze}_noisy_multistart_{starts}_multigoal_{goals}_sparse_fixed.hdf5"
    return Remote(f"{D4RL}/ant_maze_v2/{name}")


DOMAIN = Domain(
    "antmaze",
    __name__,
    steps_per_s=3_000.0,
    update_cost=0.55,
    small={"offline_updates": 80_000, "online_steps": 16_000, "evaluation_episodes": 10},
    originals={
        "antmaze-umaze": _original("u-maze", False, False),
        "antmaze-medium-play": _original("big-maze", True, False),
        "antmaze-medium-diverse": _original("big-maze", True, True),
        "antmaze-large-play": _original("hardest-maze", True, False),
        "antmaze-large-diverse": _original("hardest-maze", True, True),
    },
)
