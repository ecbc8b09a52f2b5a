"""Model files: `cpuaccel.save`, `load` and `aot_compile`."""
