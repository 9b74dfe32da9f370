"""Matrices of runs: the tables and figures of the paper, and the comparison of all methods on one task."""
