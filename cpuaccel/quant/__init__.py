"""Fusion (`fuse`) and lowering (`lower`) of int8 models, and loading of quantized models.

`load_legacy` reads int8 models of torch.ao, `load_gptq` and `load_awq` checkpoints, and
`convert_gptqmodel` models that the package gptqmodel loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from typing import IO, Any

    import torch
    from torch.fx import GraphModule

__all__ = [
    *("convert_gptqmodel", "fuse", "int8_cache", "load_awq", "load_gptq", "load_legacy", "lower"),
    "pack_torchao",
]

_MAX_BYTES = 8 << 30


def fuse(model: torch.nn.Module, *, inplace: bool = False) -> GraphModule:
    """Fuse ops of a convert_fx model that eager mode runs one by one, with the same results.

    A convolution or linear layer is fused with what follows it: activations (ReLU6, hardswish,
    sigmoid, dequantize -> SiLU -> quantize ...), which become a table of 256 entries, and then a
    sum or product with another tensor. Elsewhere, chains of activations become one table, ops that
    only move values between dequantize and quantize stay in quint8, and dropouts are removed.
    Layers with nothing to fuse become cpuaccel modules too, which call the same ops faster from
    Python. `cpuaccel.explain` shows what was fused.

    Tables are computed with the kernels that torch has during this call. So fuse under the settings
    that the model will run under, for example `cpuaccel.enabled(False)` to get exactly torch's
    rounding. Layers with hooks, and tensors that an op mutates while other ops may read them, stay
    as they are. The new modules are in `cpuaccel.quant.fused`; the state dict has their keys.

    Args:
        model: what `convert_fx` returned, in evaluation mode, for any quantized engine.
        inplace: change `model` itself, which saves a copy of the weights.

    Returns:
        The fused model. A model in which nothing is quantized is returned without changes.

    Raises:
        TypeError: `model` is not a GraphModule.
        ValueError: `model` is in training mode, or prepared but not converted.
        RuntimeError: cpuaccel's compiled module cannot be loaded, or the build has no front end for
            torch.ao's quantized tensors.
    """
    from cpuaccel.quant._front_end import require_front_end

    require_front_end("cpuaccel.quant.fuse")
    from cpuaccel.quant._fusion.passes import fuse_model

    return fuse_model(model, inplace)


def int8_cache(config: Any = None) -> Any:
    """Return a cache of transformers that holds keys and values in int8, for `generate`.

    Each head and position has a scale, the largest magnitude / 127. It takes a quarter of a float32
    cache, and steps of models that `cpuaccel.optimize` returned read it as it is. A prompt attends
    to its own keys and values before they are rounded. Layers with a sliding window stay floats.

    Args:
        config: the model's, which says what layers it has; None: they have no window.

    Returns:
        A `DynamicCache`, empty: the argument `past_key_values` (or `cache`) of one `generate`.

    Raises:
        ImportError: transformers is not installed.
    """
    from cpuaccel.quant._int8_cache import made

    return made(config)


def lower(model: torch.nn.Module) -> torch.nn.Module:
    """Rewrite an int8 model to plain tensors, for `torch.compile` and `torch.export`.

    Quantized tensors become uint8 and int8 tensors between `quantize_per_tensor` and
    `dequantize_per_tensor`, the form of PT2E models, with float ops between them. The result has no
    packed weights and no quantized tensors of torch, so it compiles without graph breaks, exports,
    and runs on every engine. Static, dynamic and float16-dynamic layers, 8-bit embeddings and what
    convert_fx puts between them are lowered. LSTM, GRU and their cells stay torch's. Anything else
    stays on torch's quantized tensors: each such node logs a warning and is named in
    `meta["cpuaccel_left"]`.

    An eager-mode model (`torch.ao.quantization.convert`, `quantize_dynamic`) is first traced with
    torch.fx, for calls that pass only the required arguments of its forward. If torch.fx cannot
    trace the model, each part is lowered that it can trace and that takes and returns floats.

    Each op returns the integers of `model`, except where a sum of floats lies within its rounding
    of the border between two integers. Later ops can enlarge such a difference, up to the error of
    quantization. A lowered model is slow in eager mode: compile it.

    Args:
        model: what `convert_fx` returned, before `fuse`, or what `torch.ao.quantization.convert`
            returned, in evaluation mode; or a module with such parts. It is not changed; the result
            shares what is not quantized in it.

    Returns:
        The lowered model: a GraphModule for a GraphModule or for a model that torch.fx traced.

    Raises:
        TypeError: `model` is not a module, or has no part that can be lowered; the message gives
            the reason.
        ValueError: `model` is in training mode, or prepared but not converted.
    """
    from cpuaccel.quant._lowering import lower_model

    return lower_model(model)


def load_legacy(
    file: str | os.PathLike[str] | IO[bytes],
    *,
    model: torch.nn.Module | None = None,
    key: str | None = None,
    max_bytes: int = _MAX_BYTES,
) -> torch.nn.Module:
    """Load an int8 model that torch.ao made, into a model of plain tensors.

    It reads files of `torch.save`, `pickle.dump` and `torch.jit.save`: models of `convert_fx`,
    of `torch.ao.quantization.convert` and of `quantize_dynamic`, and their state dicts. It needs
    neither torch.ao nor torch's quantized dtypes, so that it also works with a torch that no longer
    has them. Weights become int8 tensors, and activations uint8 tensors between
    `quantize_per_tensor` and `dequantize_per_tensor`, as `lower` writes them. The result runs in
    eager mode, `torch.compile`, `torch.export` and `cpuaccel.optimize`. While cpuaccel is on, eager
    calls that need no gradients run by a plan, made in the first call. What the saved model returns
    as a quantized tensor, it returns as floats.

    No code of the file is executed: names in its pickle are not imported, and sources in it are
    parsed, against lists of known functions, methods and classes of torch.

    Args:
        file: a path, or a seekable file opened for bytes.
        model: needed for a state dict, and for a module of a class of your own, because such files
            have no forward: the float model that was quantized, in any state, or what torch.ao made
            of it. torch.fx traces its forward. If all quantized layers are dynamic, they are
            replaced in a copy, and the forward is not traced. It is not changed. Stubs are found by
            their class names, QuantStub and DeQuantStub; an Identity in place of a QuantStub is
            fine.
        key: the entry to load, if the file holds a dict of several things.
        max_bytes: the largest file, and the largest tensor, that is read.

    Returns:
        The model, in eval mode: a GraphModule, or with dynamic layers a copy of `model`.

    Raises:
        TypeError: `file` is neither a path nor a file, or `model` is not a module.
        ValueError: the file is damaged, or not a model of a form above; it has a class, op or
            statement that is not known; `model` is missing or does not fit. The message names the
            file, the reason, and what to do.
        OSError: the file cannot be opened.
    """
    from cpuaccel.quant._legacy import load_legacy as load

    return load(file, model=model, key=key, max_bytes=max_bytes)


def load_gptq(
    model: torch.nn.Module,
    checkpoint: str | os.PathLike[str],
    *,
    checkpoint_format: str | None = None,
    int8_activations: bool = False,
) -> torch.nn.Module:
    """Load a GPTQ checkpoint into a float model, whose linear layers become layers of 4 or 8 bits.

    Each linear layer with a tensor `qweight` becomes a `cpuaccel.quant.intx_linear.IntxLinear`,
    which holds the weight once, packed; all other tensors are loaded into the model's parameters
    and buffers, in their dtypes. Codes of 2 to 4 bits are packed to 4 bits, all others to 8.
    Act-order (`desc_act`, a `g_idx` that is not sorted) and layers without it work. Weights are
    those of the checkpoint, bit for bit: `(code - zero_point) * scale` in float32.

    Args:
        model: The model with float layers, also on the meta device, which needs no memory: then
            its buffers that the checkpoint lacks must be on the CPU. It is changed, and after an
            error in part.
        checkpoint: A safetensors file, or a folder with such files and their index.
        checkpoint_format: `"gptq"`, whose stored zero points are smaller by one, or `"gptq_v2"`,
            whose are not. Default: what `quantize_config.json` or `config.json` beside the files
            says, else `"gptq"`; if all zero points of a layer are symmetric in the other format
            (some checkpoints name the wrong one), that one, with a warning in the log.
        int8_activations: Round the rows of each layer's input to int8, as they come: faster from
            some rows on, and less accurate.

    Returns:
        `model`.

    Raises:
        ValueError: a tensor is missing, is not in the model, or has another shape or type than the
            model and the format ask for; the file is damaged. The message names the tensor, its
            shape and what was expected.
        FileNotFoundError: there is no such file or folder.
        TypeError: `model` is not a module.
        ImportError: the package safetensors is missing.
    """
    from cpuaccel.quant._checkpoints.files import Checkpoint
    from cpuaccel.quant._checkpoints.gptq import load_gptq as load

    return load(model, Checkpoint(checkpoint), checkpoint_format, int8_activations)


def load_awq(
    model: torch.nn.Module,
    checkpoint: str | os.PathLike[str],
    *,
    int8_activations: bool = False,
) -> torch.nn.Module:
    """Load an AWQ checkpoint into a float model, whose linear layers become layers of 4 bits.

    It is `load_gptq` for the tensors of AWQ's version "gemm"; other versions are an error.

    Args:
        model: As in `load_gptq`.
        checkpoint: As in `load_gptq`.
        int8_activations: As in `load_gptq`.

    Returns:
        `model`.

    Raises:
        ValueError: as in `load_gptq`.
        FileNotFoundError: there is no such file or folder.
        TypeError: `model` is not a module.
        ImportError: the package safetensors is missing.
    """
    from cpuaccel.quant._checkpoints.awq import load_awq as load
    from cpuaccel.quant._checkpoints.files import Checkpoint

    return load(model, Checkpoint(checkpoint), int8_activations)


def pack_torchao(model: torch.nn.Module) -> torch.nn.Module:
    """Hold the weights that torchao quantized once, in the order that the kernels read.

    torchao's tensors stay in a model beside the packed weights that cpuaccel's kernels read, so
    weights take twice their memory. This replaces each `nn.Linear` whose weight is an `Int8Tensor`
    by an `int8_linear.Int8Linear`, or, if its weight is an `IntxUnpackedToInt8Tensor` or an
    `Int8Tensor` with groups, by an `intx_linear.IntxLinear`. Results are the same, bit for bit.

    Args:
        model: A model that `torchao.quantize_` has quantized. It is changed in place; save it
            before, because its state dict has packed weights afterwards.

    Returns:
        `model`. Layers stay torchao's if the kernels do not have their kind, or if the weight is
        another module's too; the log has a warning with the reason for each.

    Raises:
        TypeError: `model` is not a module, or itself a layer.
        ValueError: `model` has no such layer.
    """
    from cpuaccel.quant._torchao.packed_layers import pack_torchao as pack

    return pack(model)


def convert_gptqmodel(model: torch.nn.Module, *, int8_activations: bool = False) -> torch.nn.Module:
    """Replace the layers of a model that the package gptqmodel loaded for torch's ops.

    Each of gptqmodel's `TorchLinear` (GPTQ; `TorchQuantLinear` in older versions) and
    `AwqTorchLinear` (AWQ) becomes a `cpuaccel.quant.intx_linear.IntxLinear`, which holds the weight
    once, packed, and runs in eager mode, `torch.compile` and `torch.export`. Without this call such
    layers run on the same kernels too, in evaluation and eager mode, but they then hold the weight
    twice. Weights are gptqmodel's, bit for bit: `(code - zero_point) * scale` in float32, which
    gptqmodel rounds to the dtype of the scales.

    Args:
        model: What `GPTQModel.load` or transformers' `from_pretrained` returned, or a part of it.
            It is changed in place.
        int8_activations: Round the rows of each layer's input to int8, as they come: faster from
            some rows on, and less accurate.

    Returns:
        `model`. Layers that the kernels do not have (with an adapter or a rotation, on another
        device, words of another size than 32 bits, groups of no multiple of 8 features) stay
        gptqmodel's; the log has a warning with the reason for each.

    Raises:
        TypeError: `model` is not a module, or itself a layer.
        ValueError: `model` has no such layer.
    """
    from cpuaccel.quant._gptqmodel.convert import convert_gptqmodel as convert

    return convert(model, int8_activations)
