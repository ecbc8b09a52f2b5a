"""int8 quantization with torch's FX workflow: calibrate once, then pack for each engine."""

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    QConfigMapping,
    get_default_qconfig_mapping,
    per_channel_dynamic_qconfig,
)
from torch.ao.quantization.fx import utils as fx_utils
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx import GraphModule

from benchmarks import _plugin


def calibrate(model: nn.Module, batches: Iterable[Tensor]) -> GraphModule:
    """Copies `model` and adds observers that have seen `batches`.

    The qconfig mapping is x86's for every engine, so all engines hold the same integers and differ
    in speed only. Its activations are 7-bit, so nothing saturates even without VNNI.
    """
    batches = list(batches)
    with quiet(), torch.no_grad():
        mapping = get_default_qconfig_mapping("x86")
        prepared = prepare_fx(copy.deepcopy(model), mapping, example_inputs=(batches[0],))
        for batch in batches:
            prepared(batch)
    _forget_models()
    return prepared


def convert(prepared: GraphModule, engine: str, *, plugin: bool = False) -> nn.Module:
    """An int8 copy of `prepared`, packed under `engine` with cpuaccel enabled or disabled.

    Packing binds a model to its engine, so copies for several engines can run side by side.
    """
    with quantized_engine(engine), _plugin.enabled(plugin), quiet():
        converted = convert_fx(copy.deepcopy(prepared))
        _allocate_buffers(converted)
    _forget_models()
    return converted


def _allocate_buffers(model: nn.Module) -> None:
    """Reallocates the model's float buffers with the allocator that new tensors use.

    deepcopy always allocates with torch's own allocator. A program that starts with an empty cache
    would have these buffers from the current allocator.
    """
    with torch.no_grad():
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.set_(buffer.clone())


def prepare_dynamic(
    model: nn.Module, x: Tensor, non_traceable: Sequence[type[nn.Module]]
) -> GraphModule:
    """A copy of `model` whose linear layers `convert` makes int8 with dynamic quantization.

    Weights are quantized per channel, inputs by ranges measured at run time. Modules of the classes
    `non_traceable` are not traced.
    """
    mapping = QConfigMapping().set_object_type(nn.Linear, per_channel_dynamic_qconfig)
    custom = PrepareCustomConfig().set_non_traceable_module_classes(list(non_traceable))
    with quiet(), torch.no_grad():
        prepared = prepare_fx(
            copy.deepcopy(model), mapping, example_inputs=(x,), prepare_custom_config=custom
        )
    _forget_models()
    return prepared


def _forget_models() -> None:
    """Clears torch's cache of model devices, which keeps every model alive that it was asked about.

    prepare_fx and convert_fx ask about each model: 100 MB for an int8 resnet18, never freed
    otherwise.
    """
    clear = getattr(getattr(fx_utils, "assert_and_get_unique_device", None), "cache_clear", None)
    if clear is not None:
        clear()


@contextmanager
def quantized_engine(engine: str) -> Iterator[None]:
    """Sets `torch.backends.quantized.engine` for a block."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


@contextmanager
def quiet() -> Iterator[None]:
    """Silences torch's usual warnings about int8 models: deprecations and observer ranges."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.ao\..*")
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
        warnings.filterwarnings("ignore", message="All inputs of this cat operator must share")
        yield
