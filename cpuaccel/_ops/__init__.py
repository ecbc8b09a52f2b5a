"""Ops of ours as torch's compiler sees them: a fake kernel each, one to one with csrc/ops."""
