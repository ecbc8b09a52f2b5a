"""Benchmarks of single ops and kernels."""
