"""Which methods, arms and tasks the paper's claims are about."""

from __future__ import annotations

OURS, UNCALIBRATED = "cal-ql", "cql"
PAIR = (OURS, UNCALIBRATED)  # the same learner with and without the paper's one line
MANY_UPDATES = ("cal-ql-utd20", "rlpd")  # at 20 updates a step
NOT_AS_LONG = MANY_UPDATES  # take other numbers of updates than all others do

NARROW, DIVERSE = "antmaze-medium-narrow", "antmaze-medium-diverse"
MIXING = "door-binary"  # the task of the share of offline data
KITCHENS = "kitchen-"  # how the tasks of the reference values begin

# Of a method the variants that are one arm, in pairs; "": as the method is.
A_QUARTER, A_HALF = (OURS, "mixing=0.25"), (OURS, "mixing=0.5", "")
REGRESSED, MONTE_CARLO = (OURS, "reference=regression"), (OURS, "reference=monte-carlo", "")
OURS_AT_20, THEIRS_AT_20 = ((method, "utd=20", "") for method in MANY_UPDATES)
