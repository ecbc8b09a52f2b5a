"""Times every op that cpuaccel overrides, and lists the calls that are slower than torch."""
