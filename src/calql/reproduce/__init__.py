"""Every table and figure of the paper: which cells it is made of, how they are run, and what they come to."""
