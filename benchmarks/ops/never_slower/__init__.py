"""Every op that cpuaccel overrides, with the plugin on and off: lists the calls that are slower."""
