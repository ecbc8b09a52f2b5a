"""Compares cpuaccel with other runtimes on many models, in one table."""
