"""What users call: the torch.compile backend, the Inductor pass, and `cpuaccel.optimize`."""
