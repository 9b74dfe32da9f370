"""Property tests of this folder: no deadline, since the machine may be busy, and no files left behind."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

settings.register_profile("data", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("data")

if any(find_spec(package) is None for package in ("av", "pyarrow", "zarr")):  # without the extra [formats]
    collect_ignore_glob = ["test_format*.py", "test_cameras.py", "test_tfrecord.py", "test_reward_maps.py"]
