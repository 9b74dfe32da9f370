"""Which methods, variants and tasks the paper's claims are about."""

from __future__ import annotations

OURS, UNCALIBRATED = "cal-ql", "cql"
PAIR = (OURS, UNCALIBRATED)  # the same learner with and without the paper's one line
AT_20, OTHER_AT_20 = "cal-ql-utd20", "rlpd"  # at 20 updates a step, held against each other alone

NARROW, DIVERSE = "antmaze-medium-narrow", "antmaze-medium-diverse"
MIXING = "door-binary"  # the task of the share of offline data
KITCHEN = "kitchen-"  # how the tasks of the reference values begin

# A method with the names that one of its variants has; "": as the method is.
A_QUARTER, A_HALF = (OURS, "mixing=0.25"), (OURS, "mixing=0.5", "")
REGRESSED, MONTE_CARLO = (OURS, "reference=regression"), (OURS, "reference=monte-carlo", "")
MANY_UPDATES, OTHERS_MANY_UPDATES = (AT_20, "utd=20", ""), (OTHER_AT_20, "utd=20", "")
