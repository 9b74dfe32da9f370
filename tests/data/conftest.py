"""Property tests of this folder: no deadline, since the machine may be busy, and no files left behind."""

from hypothesis import HealthCheck, settings

settings.register_profile("data", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("data")
