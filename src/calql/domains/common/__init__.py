"""What several domains share: simulators, and how datasets are made by policies."""
