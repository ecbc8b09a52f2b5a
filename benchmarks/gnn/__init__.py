"""Benchmarks of graph ops; run one as `python -m benchmarks.gnn.NAME` from a checkout."""
