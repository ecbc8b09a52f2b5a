"""Benchmarks of oneDNN Graph partitions in compiled models."""
