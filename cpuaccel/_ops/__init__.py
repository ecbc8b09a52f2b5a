"""cpuaccel's ops as torch's compiler sees them: a fake kernel for each op in csrc/ops."""
