"""Locomotion: a half-cheetah, a hopper or a walker runs as fast as it can."""

from calql.domains.base import D4RL, Domain, Remote

# SHA-256 of D4RL's files, as TensorFlow Datasets publishes them.
CHECKSUMS = {
    "halfcheetah-random": "25407aef85b5d16c0f36b4149341edb4acc6a9e88c1db529b2de19e7464874ba",
    "halfcheetah-medium": "41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0",
    "halfcheetah-medium-replay": "48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683",
    "halfcheetah-medium-expert": "015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06",
    "halfcheetah-expert": "d9fe53bb994eb1e20a99b4fa3412cd76a1bb7966a7ff55e0fcbdd6081bd2965f",
    "hopper-random": "63103ef7059db4c0819bd054f4e83ff339030b50bcdb46bdbe50385f234b5054",
    "hopper-medium": "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
    "hopper-medium-replay": "e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b",
    "hopper-medium-expert": "9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26",
    "hopper-expert": "01aa219a5f8eea5e639eccdc636ec2bf40e317159a95cf4bf6e985f16909941b",
    "walker2d-random": "4e863bb6090cf4a461548bd470564b32f1ae5b32ef3085f816b2ede7f092e7fa",
    "walker2d-medium": "cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda",
    "walker2d-medium-replay": "e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db",
    "walker2d-medium-expert": "6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04",
    "walker2d-expert": "2985dc3d436a8baa10e8f43f946fe1d7c6337a4e4fbc65def70618093b18c59a",
}


def _original(name: str) -> Remote:
    body, level = name.split("-", 1)
    return Remote(f"{D4RL}/gym_mujoco_v2/{body}_{level.replace('-', '_')}-v2.hdf5", sha256=CHECKSUMS[name])


DOMAIN = Domain(
    "locomotion",
    __name__,
    steps_per_s=9_000.0,
    update_cost=0.3,
    small={"offline_updates": 80_000, "online_steps": 16_000, "evaluation_episodes": 5},
    originals={name: _original(name) for name in CHECKSUMS},
)
