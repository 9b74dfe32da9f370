"""What every room stands on: errors that say how to mend them, whole files, the machine, options, registries."""
