"""What a file has for the modules of a model, by path: of a state dict, or of a pickled module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel._compat import BatchNorm
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.modules import Part, built
from cpuaccel.quant._legacy.packed import Cell, convolution, linear
from cpuaccel.quant._legacy.recurrent import GRU, LSTM, GRUCell, LSTMCell
from cpuaccel.quant._lowering.integers import Convolution, IntegerTensor, UnpackedLayer
from cpuaccel.quant._torch_ao import DescribedModule, kind_of

STUBS = ("QuantStub", "DeQuantStub")
"""The stubs of an eager-mode model, by the name of their class."""

_QUANTIZED = (IntegerTensor, UnpackedLayer, Cell, tuple)
_DYNAMIC_VERSION = 4
"""The version of torch.ao's dynamic linear layers in a state dict; static ones have 3."""
_PACKED = "_packed_params._packed_params"
_ROWS = "_packed_params._packed_weight"


class State:
    """Tensors and packed weights by path, and the quantized modules that a pickle has."""

    def __init__(
        self, values: dict[str, Any], versions: dict[str, Any], *, complete: bool = True
    ) -> None:
        self._values = values
        self._complete = complete
        """Whether all values are those of a state dict. A module also has other tensors."""
        self._versions = versions
        self._modules: dict[str, Part] = {}

    @classmethod
    def of_part(cls, part: Part) -> State:
        """Return the state of a module of a file."""
        values: dict[str, Any] = {}
        made = cls(values, {}, complete=False)
        inside = ""
        for path, each in part.parts().items():
            if inside and path.startswith(inside):
                continue
            if each.kind and path:
                made._modules[path] = each
                inside = f"{path}."
                continue
            inside = ""
            for name, value in each.attributes.items():
                if isinstance(value, (Tensor, IntegerTensor)):
                    values[f"{path}.{name}" if path else name] = value
        return made

    def examples(self) -> list[str]:
        """Return some of its paths, for errors."""
        return [*self._modules, *self._values][:3] or ["nothing"]

    def value(self, path: str) -> Any:
        """Return what the file has at a path, or None."""
        return self._values.get(path)

    def is_of_graph(self) -> bool:
        """Return whether it is the state of a graph of convert_fx, which packs functions."""
        return any(
            isinstance(value, UnpackedLayer) and "." not in path
            for path, value in self._values.items()
        )

    def leaves(self, model: nn.Module) -> dict[str, nn.Module]:
        """Return the quantized modules for a model, by path."""
        found: dict[str, nn.Module] = {}
        for path, module in model.named_modules():
            if any(path.startswith(f"{each}.") for each in found):
                continue
            leaf = self._leaf(path, module)
            if leaf is not None:
                found[path] = leaf
        missing = [path for path in self._modules if path not in found]
        missing += self._unplaced(found)
        if missing:
            raise LegacyError(
                f"model: {type(model).__name__} has no layer for {missing[0]!r}, which the file has"
            )
        return found

    def _unplaced(self, leaves: dict[str, nn.Module]) -> list[str]:
        """Return the paths of quantized values that belong to no layer of the model."""
        if "" in leaves:
            return []
        inside = tuple(f"{path}." for path in leaves)
        return [
            path
            for path, value in self._values.items()
            if isinstance(value, _QUANTIZED) and "." in path and not path.startswith(inside)
        ]

    def _leaf(self, path: str, module: nn.Module) -> nn.Module | None:
        part = self._modules.get(path)
        if part is not None:
            leaf = built(part)
            if leaf is None:
                raise LegacyError(f"module {path} of class {part.made_by} is not known")
            return leaf
        own = self._below(path)
        if not own:
            return _folded(module) if path else None
        try:
            return self._from_values(path, module, own)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, LegacyError):
                raise
            raise LegacyError(f"state of {path}: {error}") from error

    def _below(self, path: str) -> dict[str, Any]:
        prefix = f"{path}." if path else ""
        return {k.removeprefix(prefix): v for k, v in self._values.items() if k.startswith(prefix)}

    def _from_values(self, path: str, module: nn.Module, own: dict[str, Any]) -> nn.Module | None:
        packed, rows = _packed(own), own.get(_ROWS)
        if packed is not None:
            return _linear(own, packed, self._version(path, own))
        if isinstance(rows, IntegerTensor):
            if _base(module) != "Embedding":
                raise LegacyError(f"a quantized {_base(module)}, for which cpuaccel has no rule")
            return DescribedModule("quantized.Embedding", {"table": rows})
        if isinstance(own.get("weight"), IntegerTensor) and "Conv" in _base(module):
            return _convolution(own, module)
        if "_all_weight_values.0.param" in own:
            return _sequence(own, module)
        if isinstance(own.get("_packed_weight_ih"), UnpackedLayer):
            cls = {"LSTMCell": LSTMCell, "GRUCell": GRUCell}[_base(module)]
            return cls(Cell(own["_packed_weight_ih"], own["_packed_weight_hh"], True))
        return _without_weights(own, module)

    def _version(self, path: str, own: dict[str, Any]) -> int:
        """Return the version of a linear layer: 4 and above are dynamic."""
        entry = self._versions.get(path)
        version = entry.get("version") if isinstance(entry, dict) else None
        if isinstance(version, int):
            return version
        # Without metadata: dynamic layers have the quantizer that no observer finds.
        is_dynamic = float(own.get("scale", 1.0)) == 1 and int(own.get("zero_point", 0)) == 0
        return _DYNAMIC_VERSION if is_dynamic else _DYNAMIC_VERSION - 1

    def load_floats(self, model: nn.Module, leaves: dict[str, nn.Module]) -> None:
        """Load the tensors of a model that are not quantized. `model` has them from the user."""
        inside = tuple(f"{path}." for path in leaves)
        floats = {
            name: value
            for name, value in self._values.items()
            if isinstance(value, Tensor) and not name.startswith(inside)
        }
        expected = {k for k in model.state_dict() if not k.startswith(inside)}
        missing = sorted(expected - floats.keys())
        unexpected = sorted(floats.keys() - expected) if self._complete else []
        if missing or unexpected:
            raise LegacyError(
                f"model: its tensors and those of the file differ: the file lacks {missing[:3]},"
                f" the model lacks {unexpected[:3]}"
            )
        try:
            with torch.no_grad():
                model.load_state_dict(floats, strict=False)
        except RuntimeError as error:
            raise LegacyError(f"model: {error}") from error


def _base(module: nn.Module) -> str:
    """Return the class of torch.nn that a module is, of fused and quantized modules too."""
    kind = kind_of(module)
    name = kind.rpartition(".")[2] if kind else type(module).__name__
    first = next(module.children(), None)
    if not kind and "intrinsic" in type(module).__module__ and first is not None:
        return type(first).__name__
    return name


def _folded(module: nn.Module) -> nn.Module | None:
    """Return Identity for a batch norm that the file has folded into a convolution."""
    is_norm = isinstance(module, BatchNorm)
    return nn.Identity() if is_norm else None


def _packed(own: dict[str, Any]) -> UnpackedLayer | None:
    """Return the packed weights of a linear layer, of all versions of its state."""
    given = own.get(_PACKED)
    if isinstance(given, UnpackedLayer):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return linear(*given)
    for weight, bias in (("_packed_params.weight", "_packed_params.bias"), ("weight", "bias")):
        found = own.get(weight)
        if isinstance(found, IntegerTensor) and found.q.dim() == 2:
            return linear(found, own.get(bias))
    return None


def _linear(own: dict[str, Any], packed: UnpackedLayer, version: int) -> nn.Module:
    half = isinstance(packed.weight, Tensor)
    dtype = torch.float16 if half else torch.int8
    layer = DescribedModule("quantized.LinearPackedParams", {"dtype": dtype})
    layer._packed_params = packed  # type: ignore[assignment]
    attributes = {
        "_packed_params": layer,
        "scale": own.get("scale", 1.0),
        "zero_point": own.get("zero_point", 0),
        "version": version,
    }
    dynamic = half or version >= _DYNAMIC_VERSION
    kind = "quantized.dynamic.Linear" if dynamic else "quantized.Linear"
    return DescribedModule(kind, attributes)


def _convolution(own: dict[str, Any], module: Any) -> nn.Module:
    kind = kind_of(module)
    like = module if hasattr(module, "stride") else next(module.children())
    sides = len(like.stride)
    padding = like.padding if not isinstance(like.padding, str) else None
    if padding is None:
        raise LegacyError(f"padding={like.padding!r} of a convolution: expected numbers")
    numbers = Convolution(
        transposed=bool(like.transposed),
        stride=[int(each) for each in like.stride],
        padding=[int(each) for each in padding],
        output_padding=[int(each) for each in (like.output_padding or [0] * sides)],
        dilation=[int(each) for each in like.dilation],
        groups=int(like.groups),
    )
    relu = "ReLU" in (kind or type(module).__name__)
    name = f"Conv{'Transpose' if numbers.transposed else ''}{'ReLU' if relu else ''}{sides}d"
    return DescribedModule(
        f"intrinsic.quantized.{name}" if relu else f"quantized.{name}",
        {
            "_packed_params": convolution(own["weight"], own.get("bias"), numbers),
            "scale": own["scale"],
            "zero_point": own["zero_point"],
            "padding": tuple(padding),
            "padding_mode": like.padding_mode,
        },
    )


def _sequence(own: dict[str, Any], module: Any) -> nn.Module:
    count = sum(key.startswith("_all_weight_values.") for key in own)
    cells = [own[f"_all_weight_values.{i}.param"] for i in range(count)]
    cls = {"LSTM": LSTM, "GRU": GRU}[_base(module)]
    return cls(cells, module.num_layers, module.bidirectional, module.batch_first)


_KINDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "BatchNorm2d": lambda m: {"eps": m.eps},
    "BatchNorm3d": lambda m: {"eps": m.eps},
    "ELU": lambda m: {"alpha": m.alpha},
    "GroupNorm": lambda m: {"eps": m.eps, "num_groups": m.num_groups},
    "Hardswish": lambda m: {},
    "InstanceNorm1d": lambda m: {"eps": m.eps},
    "InstanceNorm2d": lambda m: {"eps": m.eps},
    "InstanceNorm3d": lambda m: {"eps": m.eps},
    "LayerNorm": lambda m: {"eps": m.eps, "normalized_shape": m.normalized_shape},
    "LeakyReLU": lambda m: {"negative_slope": m.negative_slope},
    "PReLU": lambda m: {},
}
"""Modules without packed weights: the attributes that a state dict does not have."""


def _without_weights(own: dict[str, Any], module: nn.Module) -> nn.Module | None:
    if not {"scale", "zero_point"} <= own.keys():
        return None
    name = _base(module)
    if name in ("FloatFunctional", "QFunctional", "FXFloatFunctional"):
        return DescribedModule("quantized.QFunctional", own)
    if name in _KINDS:
        return DescribedModule(f"quantized.{name}", own | _KINDS[name](module))
    is_stub = name in ("QuantStub", "Quantize", "Identity")
    if is_stub and own.keys() == {"scale", "zero_point"}:
        return DescribedModule("quantized.Quantize", own | {"dtype": torch.uint8})
    if any(True for _ in module.children()):
        return None
    raise LegacyError(f"a quantized {name}, for which cpuaccel has no rule")
