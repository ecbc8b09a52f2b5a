"""Benchmarks of Arm kernels under emulation, which count instructions instead of time."""
