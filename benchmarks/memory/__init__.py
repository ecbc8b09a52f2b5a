"""Benchmarks of the memory allocator."""
