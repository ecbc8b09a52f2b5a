"""Replaces the linear layers of a model by those of a checkpoint, and loads its other tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from cpuaccel import memory
from cpuaccel.quant._checkpoints.files import Checkpoint
from cpuaccel.quant.intx_linear import IntxLinear, pack_by_parts

_PARTS = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True)
class Codes:
    """A weight as `IntxLinear.from_codes` takes it; ``codes(first, last)`` returns these rows."""

    codes: Callable[[int, int], Tensor]
    scale: Tensor
    zero_point: Tensor
    bits: int
    order: Tensor | None = None

    def layer(self, bias: Tensor | None, int8_activations: bool) -> IntxLinear:
        """Return the layer, whose weight is packed by parts."""
        packed = pack_by_parts(self.codes, self.scale, self.zero_point, self.bits)
        return IntxLinear(packed, bias, order=self.order, int8_activations=int8_activations)


class Source(Protocol):
    """What the tensors come from."""

    def error(self, text: str) -> ValueError:
        """Return a ValueError that names the source."""


@dataclass(frozen=True)
class LayerTensors:
    """The quantized tensors of a layer."""

    checkpoint: Source
    name: str
    parts: Mapping[str, Tensor]
    out_features: int
    in_features: int

    def part(self, name: str) -> Tensor:
        """Return a part, or raise an error if it is missing."""
        if name not in self.parts:
            raise self.checkpoint.error(f"it has no tensor {self.name}.{name}")
        return self.parts[name]

    @property
    def groups(self) -> int:
        """The number of groups, which `scales` has in its first dimension."""
        scales = self.part("scales")
        groups = scales.shape[0] if scales.dim() == 2 else 0
        if groups == 0 or self.in_features % groups != 0:
            raise self.checkpoint.error(
                f"{self.name}.scales of shape {tuple(scales.shape)} has {groups} groups, which do "
                f"not divide {self.in_features} in_features"
            )
        return groups

    def expect(self, name: str, dtype: torch.dtype | None, shape: tuple[int, ...]) -> Tensor:
        """Return a part of this dtype and shape, or raise an error."""
        part = self.part(name)
        right = part.is_floating_point() if dtype is None else part.dtype == dtype
        if not right or tuple(part.shape) != shape:
            raise self.checkpoint.error(
                f"{self.name}.{name} is {part.dtype} of shape {tuple(part.shape)}: expected "
                f"{dtype or 'floats'} of shape {shape} for {self.in_features} in_features and "
                f"{self.out_features} out_features"
            )
        return part


def load(
    model: nn.Module,
    checkpoint: Checkpoint,
    read: Callable[[LayerTensors], Codes],
    int8_activations: bool,
) -> nn.Module:
    """Load `checkpoint` into `model`, in place; `read` decodes a layer's tensors."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected model to be a torch.nn.Module, got {type(model).__name__}")
    layers = sorted(_owner(name) for name in checkpoint.names if name.endswith(".qweight"))
    if not layers:
        raise checkpoint.error("it has no quantized layer: no tensor's name ends in .qweight")
    tied = _tied_names(model)
    modules = dict(model.named_modules())
    for name in layers:  # before anything is changed
        _features(checkpoint, name, modules.get(name))
    console = Console(stderr=True)
    progress = track(
        layers, f"loading {checkpoint.path.name}", console=console, disable=not console.is_terminal
    )
    for name in progress:
        layer = _read_layer(checkpoint, name, modules.pop(name), read, int8_activations)
        model.set_submodule(name, layer)
    _load_others(model, checkpoint, layers, tied)
    memory.empty_cache()  # of the codes of single layers, which the model does not need again
    return model


def _read_layer(
    checkpoint: Checkpoint,
    name: str,
    before: nn.Module,
    read: Callable[[LayerTensors], Codes],
    int8_activations: bool,
) -> IntxLinear:
    out_features, in_features = _features(checkpoint, name, before)
    names = {part: f"{name}.{part}" for part in _PARTS if f"{name}.{part}" in checkpoint.names}
    parts = {part: checkpoint.tensor(full) for part, full in names.items()}
    codes = read(LayerTensors(checkpoint, name, parts, out_features, in_features))
    layer = codes.layer(_bias(checkpoint, name, before), int8_activations)
    return layer.train(before.training)


def _features(checkpoint: Checkpoint, name: str, module: nn.Module | None) -> tuple[int, int]:
    """Return out_features and in_features of a layer of the model."""
    if module is None:
        raise checkpoint.error(f"it has {name}.qweight, but the model has no module {name}")
    if isinstance(module, nn.Linear):
        return module.out_features, module.in_features
    if type(module).__name__ == "Conv1D" and isinstance(module.weight, Tensor):
        # GPT-2's layer in transformers, whose weight is transposed.
        in_features, out_features = module.weight.shape
        return out_features, in_features
    raise checkpoint.error(
        f"it has {name}.qweight, but {name} is a {type(module).__name__}: expected a Linear"
    )


def _bias(checkpoint: Checkpoint, name: str, module: nn.Module) -> Tensor | None:
    full = f"{name}.bias"
    before = getattr(module, "bias", None)
    if full not in checkpoint.names:
        if before is not None:
            raise checkpoint.error(f"it has no tensor {full}, but the model's layer has a bias")
        return None
    bias = checkpoint.tensor(full)
    if before is None:
        if bias.count_nonzero():
            raise checkpoint.error(f"it has a tensor {full}, but the model's layer has no bias")
        return None  # GPTQ writes zeros for layers without a bias
    if bias.shape != before.shape:
        raise checkpoint.error(
            f"{full} has shape {tuple(bias.shape)}: expected {tuple(before.shape)}"
        )
    return bias.to(before.dtype, copy=True)


def _tied_names(model: nn.Module) -> dict[str, set[str]]:
    """Return, for each parameter's name, all names of the same parameter."""
    by_id: dict[int, set[str]] = defaultdict(set)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        by_id[id(parameter)].add(name)
    return {name: names for names in by_id.values() for name in names}


def _load_others(
    model: nn.Module, checkpoint: Checkpoint, layers: list[str], tied: Mapping[str, set[str]]
) -> None:
    """Load all tensors that belong to no quantized layer."""
    expected = {name for name in model.state_dict() if _owner(name) not in layers}
    names = {name for name in checkpoint.names if _owner(name) not in layers}
    foreign = {name for name in names - expected if not _is_computed(model, name)}
    if foreign:
        raise checkpoint.error(f"the model has no {_listed(foreign)}")
    aliases = {name: tied.get(name, {name}) & expected for name in names & expected}
    missing = expected.difference(*aliases.values())
    if missing:
        raise checkpoint.error(f"it has no tensor {_listed(missing)}, which the model needs")
    for name, of_name in aliases.items():
        # Tied parameters that the checkpoint has one by one stay one.
        if name == min(of_name & names):
            _assign(model, checkpoint, name, of_name)
    unset = {
        name
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if tensor.is_meta
    }
    if unset:
        raise checkpoint.error(
            f"it has no value for {_listed(unset)}, which the model has on the meta device: make "
            "such buffers on the CPU before loading"
        )


def _assign(model: nn.Module, checkpoint: Checkpoint, name: str, aliases: set[str]) -> None:
    """Give the parameter or buffer with these names the values of a tensor, in its own dtype."""
    value = checkpoint.tensor(name)
    shared: Tensor | None = None
    for alias in sorted(aliases):
        owner, _, attribute = alias.rpartition(".")
        module = model.get_submodule(owner)
        before = getattr(module, attribute)
        if value.shape != before.shape:
            raise checkpoint.error(
                f"{name} has shape {tuple(value.shape)}: expected {tuple(before.shape)}"
            )
        if not before.is_meta:
            with torch.no_grad():
                before.copy_(value)
            continue
        if shared is None:
            shared = value.to(before.dtype, copy=True)
            if isinstance(before, nn.Parameter):
                shared = nn.Parameter(shared, requires_grad=before.requires_grad)
        setattr(module, attribute, shared)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _is_computed(model: nn.Module, name: str) -> bool:
    """Whether the model computes this tensor itself, as rotary embeddings do their frequencies."""
    module = dict(model.named_modules()).get(_owner(name))
    return module is not None and name.rpartition(".")[2] in module._buffers


def _listed(names: set[str], most: int = 5) -> str:
    shown = ", ".join(sorted(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
