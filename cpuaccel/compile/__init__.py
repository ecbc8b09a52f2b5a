"""Graph compilation: the torch.compile backend; cpuaccel.optimize, save, load and aot_compile."""
