"""Linear layers of the package gptqmodel that compute by torch's ops, on cpuaccel's kernels."""
