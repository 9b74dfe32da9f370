"""A user's own data and environment."""
