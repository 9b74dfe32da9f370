"""Speed, measured: updates/s of a method at given shapes, environment steps/s of a task."""
