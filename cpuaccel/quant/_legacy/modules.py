"""Modules of a file: torch.nn's as they are, torch.ao's as attributes, others as descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from cpuaccel.quant._legacy import torch_names
from cpuaccel.quant._legacy.descriptions import Global, Object
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.packed import Cell, convolution
from cpuaccel.quant._legacy.recurrent import GRU, LSTM, GRUCell, LSTMCell
from cpuaccel.quant._legacy.values import Values
from cpuaccel.quant._lowering.integers import Convolution, IntegerTensor, UnpackedLayer
from cpuaccel.quant._torch_ao import DescribedModule, kind_named

GRAPH_MODULE = "torch.fx.graph_module.reduce_graph_module"
_MAX_DEPTH = 64
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_UNREAD = frozenset(["qconfig"])
"""Attributes that prepare leaves and that no forward reads."""
_PRIVATE = frozenset(["_reversed_padding_repeated_twice"])
"""Private attributes that a forward reads."""
_CONV_STATE = (
    *("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation"),
    *("transposed", "output_padding", "groups", "padding_mode", "weight", "bias", "scale"),
    *("zero_point", "training"),
)
"""What the convolution modules of torch.ao put into a pickle, in order."""


@dataclass(eq=False)
class Part:
    """A module of a file: its class, what it holds, and its children."""

    made_by: Global
    path: str
    attributes: dict[str, Any] = field(default_factory=dict)
    """Numbers, tensors and the like, and the parameters and buffers."""
    children: dict[str, Part] = field(default_factory=dict)
    code: str | None = None
    """The source of the forward of a GraphModule."""
    imports: str = ""
    """The imports that this source needs."""

    @property
    def kind(self) -> str:
        """The kind of one of torch.ao's modules; "" for others."""
        return kind_named(self.made_by.module, self.made_by.name)

    @property
    def is_sequential(self) -> bool:
        """Whether it calls its children one after the other."""
        return str(self.made_by) == "torch.nn.modules.container.Sequential"

    def parts(self) -> dict[str, Part]:
        """Return this part and all below it, by path."""
        found = {self.path: self}
        for child in self.children.values():
            found |= child.parts()
        return found


def is_module(described: Any) -> bool:
    """Return whether a description may be a module."""
    if not isinstance(described, Object):
        return False
    if str(described.made_by) == GRAPH_MODULE:
        return True
    if kind_named(described.made_by.module, described.made_by.name):
        return True
    return isinstance(described.state, dict) and "_modules" in described.state


def part_of(described: Object, values: Values, path: str = "", depth: int = 0) -> Part:
    """Return a module of a file, with all modules below it."""
    if depth > _MAX_DEPTH:
        raise LegacyError(f"modules are nested more than {_MAX_DEPTH} deep")
    part = Part(described.made_by, path)
    state = described.state
    if str(described.made_by) == GRAPH_MODULE:
        state, part.imports = _graph_module(described)
        part.code = str(state.get("_code", ""))
    elif isinstance(state, (tuple, list)):
        part.attributes = _from_tuple(part, [values.value(each) for each in state])
        return part
    if not isinstance(state, dict):
        raise LegacyError(f"{_named(part)}: it has no attributes")
    for hooks in _HOOKS:
        if values.value(state.get(hooks, {})):
            raise LegacyError(f"{_named(part)} has hooks: remove them before saving")
    children = _entries(state.get("_modules"))
    for name, child in children.items():
        if child is None:
            part.attributes[name] = None
            continue
        if not is_module(child):
            raise LegacyError(f"{_named(part)}: its child {name!r} is not a module")
        below = f"{path}.{name}" if path else str(name)
        part.children[str(name)] = part_of(child, values, below, depth + 1)
    for name, value in state.items():
        if isinstance(name, str) and name not in ("_modules", "_code") and not is_module(value):
            part.attributes[name] = _attribute(values, name, value)
    for table in ("_parameters", "_buffers"):
        part.attributes |= {
            str(name): values.value(value) for name, value in _entries(state.get(table)).items()
        }
        part.attributes.pop(table, None)
    return part


def _attribute(values: Values, name: str, value: Any) -> Any:
    # Hooks for loading and saving name functions of torch.ao, and nothing calls them.
    if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
        return {}
    return values.value(value)


def _named(part: Part) -> str:
    return f"module {part.path or 'of the file'} ({part.made_by})"


def _entries(described: Any) -> dict[Any, Any]:
    if described is None:
        return {}
    if isinstance(described, Object):
        return described.entries
    if not isinstance(described, dict):
        raise LegacyError("damaged pickle: a module's tables are not dicts")
    return described


def _graph_module(described: Object) -> tuple[dict[str, Any], str]:
    if len(described.args) != 2 or not isinstance(described.args[0], dict):
        raise LegacyError("damaged pickle: a GraphModule without its attributes")
    return described.args[0], str(described.args[1])


def _from_tuple(part: Part, state: list[Any]) -> dict[str, Any]:
    """Return the attributes of a convolution, which has a state of its own."""
    if "Conv" not in part.kind or len(state) != len(_CONV_STATE):
        raise LegacyError(
            f"{_named(part)}: a state of {len(state)} values, which this version does not know"
        )
    found = dict(zip(_CONV_STATE, state, strict=True))
    found["_packed_params"] = layer_of(found)
    return found


def layer_of(attributes: dict[str, Any]) -> Any:
    """Return the layer of a convolution module with these attributes."""
    try:
        stride, padding, dilation, output_padding = (
            [int(each) for each in attributes[name]]
            for name in ("stride", "padding", "dilation", "output_padding")
        )
        transposed, groups = bool(attributes["transposed"]), int(attributes["groups"])
    except (KeyError, TypeError, ValueError) as error:
        raise LegacyError(f"damaged convolution: {error}") from error
    numbers = Convolution(transposed, stride, padding, output_padding, dilation, groups)
    return convolution(attributes["weight"], attributes["bias"], numbers)


def built(part: Part) -> nn.Module | None:
    """Return the module that a leaf of a graph calls; None if its class is not known."""
    if part.kind in _RECURRENT:
        return _RECURRENT[part.kind](part)
    if part.kind:
        children = {name: built(child) for name, child in part.children.items()}
        if any(child is None for child in children.values()):
            return None
        module = DescribedModule(part.kind, part.attributes | children)
        if part.kind == "quantized.Embedding":
            packed: Any = children.get("_packed_params")
            vars(module)["table"] = getattr(packed, "_packed_weight", None)
        return module
    cls = torch_names.module_class(part.made_by.module, part.made_by.name)
    if cls is None:
        return None
    return _torch_module(cls, part)


def _sequence(cls: type[LSTM] | type[GRU], part: Part) -> nn.Module:
    table = part.children.get("_all_weight_values")
    packed = {} if table is None else table.children
    cells: list[Any] = [each.attributes.get("param") for each in packed.values()]
    numbers = part.attributes
    try:
        shape = int(numbers["num_layers"]), bool(numbers["bidirectional"])
        return cls(cells, *shape, bool(numbers["batch_first"]))
    except (KeyError, TypeError) as error:
        raise LegacyError(f"{_named(part)} is damaged: {error}") from error


def _one_cell(cls: type[LSTMCell] | type[GRUCell], part: Part) -> nn.Module:
    layers: list[Any] = [part.attributes.get(f"_packed_weight_{name}") for name in ("ih", "hh")]
    if not all(isinstance(each, UnpackedLayer) for each in layers):
        raise LegacyError(f"{_named(part)}: its packed weights are missing")
    return cls(Cell(layers[0], layers[1], reduce_range=True))


_RECURRENT = {
    "quantized.dynamic.LSTM": partial(_sequence, LSTM),
    "quantized.dynamic.GRU": partial(_sequence, GRU),
    "quantized.dynamic.LSTMCell": partial(_one_cell, LSTMCell),
    "quantized.dynamic.GRUCell": partial(_one_cell, GRUCell),
}


def _torch_module(cls: type[nn.Module], part: Part) -> nn.Module:
    if part.children:
        raise LegacyError(f"{_named(part)} has children, which this class does not have")
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name, value in part.attributes.items():
        if name in _UNREAD or (name.startswith("_") and name not in _PRIVATE):
            continue
        if callable(getattr(cls, name, None)) or not _is_plain(value):
            raise LegacyError(f"{_named(part)}: attribute {name!r} has a value that it cannot have")
        if isinstance(value, Tensor):
            module.register_buffer(name, value.detach())
        else:
            setattr(module, name, value)
    return module.eval()


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(each) for each in value)
    if isinstance(value, IntegerTensor):
        return False
    return value is None or isinstance(value, (bool, int, float, str, Tensor))
