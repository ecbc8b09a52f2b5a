"""Benchmarks of whole models, one engine beside another."""
