"""Partitions and regions: which nodes run on cpuaccel in one call, and where that is faster."""
