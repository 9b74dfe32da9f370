"""Cliff grid: discrete actions, small enough for two CPU cores, and no simulator."""

from calql.domains.base import Domain

DOMAIN = Domain("cliff-grid", __name__, steps_per_s=150_000.0, update_cost=0.005, quick_data=True)
