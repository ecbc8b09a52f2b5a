"""Reads int8 models that torch.ao made: `load_legacy` is `cpuaccel.quant.load_legacy`."""

from cpuaccel.quant._legacy.load import load_legacy

__all__ = ["load_legacy"]
