"""Data in: one columnar form, its readers and writers, and the return-to-go."""

from calql.data.dataset import Dataset, concatenate
from calql.data.returns import return_to_go

__all__ = ["Dataset", "concatenate", "return_to_go"]
