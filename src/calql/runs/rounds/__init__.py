"""Rounds of collecting, training and deploying without a live connection: a project folder and what is done in it."""
