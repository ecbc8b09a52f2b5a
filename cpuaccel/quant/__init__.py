"""The int8 quantized engine: its switch, and the fusion and lowering of models that run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

__all__ = ["fuse", "lower"]


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


def lower(model: torch.nn.Module) -> torch.nn.Module:
    """Rewrite an int8 model to plain tensors, for `torch.compile` and `torch.export`.

    What is quantized becomes uint8 and int8 tensors between `quantize_per_tensor` and
    `dequantize_per_tensor`, the form that PT2E models have, with ops of floats between them. There
    is no packed weight and no quantized tensor of torch in it, so it compiles with no graph break,
    exports, and runs on every engine. Lowered are static, dynamic and float16-dynamic layers,
    embeddings of 8 bits, and what convert_fx puts between them; LSTM, GRU and their cells stay
    torch's. Anything else stays on torch's quantized tensors, in a logged warning each, and is
    named in `meta["cpuaccel_left"]`.

    Of an eager-mode model (`torch.ao.quantization.convert`, `quantize_dynamic`) torch.fx makes a
    graph first, of calls that bring the required arguments of its forward alone. If torch.fx cannot
    trace the model, each part is lowered that it can trace and that takes and returns floats.

    Each op gives the integers of `model` but for sums of floats that lie within their rounding of
    the border between two; what follows may make more of that, up to the error of quantization.
    Eager, a lowered model is slow: compile it.

    Args:
        model: what `convert_fx` returned, before `fuse`, or `torch.ao.quantization.convert`, in
            evaluation mode; or a module with such parts. It is not changed; what is not quantized
            in it is shared with the result.

    Returns:
        The lowered model: a GraphModule for a GraphModule or for a model that torch.fx traced.

    Raises:
        TypeError: `model` is no module, or has no part that can be lowered; the message says why.
        ValueError: `model` is in training mode, or prepared but not converted.
    """
    from cpuaccel.quant._lowering import lower_model

    return lower_model(model)
