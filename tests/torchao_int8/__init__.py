"""torchao's int8 weights on cpuaccel's kernels."""
