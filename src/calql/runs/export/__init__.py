"""Policies as files for other programs: ONNX, StableHLO, and arrays that plain NumPy acts with."""
