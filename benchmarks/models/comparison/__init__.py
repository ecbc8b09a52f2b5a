"""The whole comparison of cpuaccel with other runtimes, in one table."""
