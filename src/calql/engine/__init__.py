"""The engine: offline phase, switch, online phase, for many seeds as one program. It knows no task and no method."""
