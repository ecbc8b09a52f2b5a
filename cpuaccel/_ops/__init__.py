"""Fake kernels and derivatives of cpuaccel's ops, for torch.compile, torch.export and autograd."""
