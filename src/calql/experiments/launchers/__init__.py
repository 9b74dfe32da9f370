"""Where runs of a matrix take place: processes of this machine, or a Ray cluster."""
