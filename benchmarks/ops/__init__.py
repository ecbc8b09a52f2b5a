"""Benchmarks of single ops, one provider beside another."""
