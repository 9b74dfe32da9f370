"""Environments that the tasks run in."""
