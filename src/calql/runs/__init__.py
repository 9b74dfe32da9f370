"""A run from outside: its folder and who works in it, what may change on resume, and how it is stopped."""
