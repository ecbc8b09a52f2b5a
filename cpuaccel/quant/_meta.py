"""Keys that cpuaccel.quant sets in the `meta` of a GraphModule."""

NOTHING_QUANTIZED = "cpuaccel.quant.fuse.nothing_quantized"
"""Set on a model in which `fuse` found nothing quantized."""
