"""Domains: one folder each, with everything the package knows of it."""
