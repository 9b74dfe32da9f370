"""From the rows of a matrix to numbers: statistics, comparison with the paper, verdicts."""
