"""cpuaccel's changes to Inductor: scatter sums in compiled graphs run on cpuaccel's kernels."""
