"""Benchmarks of graph kernels; run one as `python -m benchmarks.gnn.NAME` from a checkout."""
