"""Formats of logged data: one file each."""
