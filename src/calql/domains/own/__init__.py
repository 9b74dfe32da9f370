"""A user's own data and environment: a domain without tasks, under one name in the tables of methods."""

from __future__ import annotations

NAME = "own"
