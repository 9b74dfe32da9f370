"""HTML pages about datasets."""
