"""Benchmarks of models: cpuaccel, torch's engines and other runtimes."""
