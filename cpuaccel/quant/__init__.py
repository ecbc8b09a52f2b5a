"""The int8 quantized engine: its switch, and the fusion of models that run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

__all__ = ["fuse"]


def fuse(model: torch.nn.Module, *, inplace: bool = False) -> GraphModule:
    """Fuse in a convert_fx model what eager mode runs as separate ops, with the same numbers.

    A convolution or linear layer takes with it what follows: activations (ReLU6, hardswish,
    sigmoid, dequantize -> SiLU -> quantize ...), which become a table of 256 entries, and then a
    sum or product with another tensor. Chains of activations elsewhere become one table, what is
    only moved about between dequantize and quantize stays quint8, and dropouts go. Layers with
    nothing to fuse become modules of ours too, which call the same ops faster from Python.
    `cpuaccel.explain` shows what was fused.

    Tables are computed by the kernels that torch has while this runs: fuse under the settings that
    the model will run under (`cpuaccel.enabled(False)`, say, to get exactly torch's rounding).
    A layer with hooks, and what an op in place changes under somebody else's eyes, stay as they
    are. Modules of the result are in `cpuaccel.quant.fused`; the state dict has their keys.

    Args:
        model: what `convert_fx` returned, in evaluation mode, for any quantized engine.
        inplace: change `model` itself, which saves a copy of the weights.

    Returns:
        The fused model. One in which nothing is quantized comes back as it was.

    Raises:
        TypeError: `model` is no GraphModule.
        ValueError: `model` is in training mode, or prepared but not converted.
        RuntimeError: cpuaccel's compiled module cannot be loaded.
    """
    from cpuaccel.quant._fusion import fuse_model

    return fuse_model(model, inplace)
