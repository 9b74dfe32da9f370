"""A run: what is asked for, its folder and who works in it, its life, its policy."""
