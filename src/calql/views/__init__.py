"""Pages about what is no run: a dataset, looked at before anything is trained on it."""
