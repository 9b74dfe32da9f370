"""Where runs of a matrix take place: processes of this machine, a Ray cluster, or Slurm."""
