"""The paper: its tables as data, which runs they are made of, and how long these are."""
