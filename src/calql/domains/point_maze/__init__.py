"""Point maze: the embedded default, small enough for two CPU cores."""

from calql.domains.base import Domain

DOMAIN = Domain("point-maze", __name__, steps_per_s=8_300.0, update_cost=0.005, quick_data=True)
