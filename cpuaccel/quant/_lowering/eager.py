"""Traces eager-mode int8 models with torch.fx, for the rules that lower convert_fx's graphs.

If torch.fx can trace the model's forward, the model becomes one graph. Otherwise each outermost
part becomes a graph that torch.fx can trace and that takes and returns no quantized tensors. A
dynamic layer is such a part.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer

from cpuaccel import _log
from cpuaccel._modules import structure_of
from cpuaccel.quant._eager_modules import holds_quantized, is_quantized_module
from cpuaccel.quant._fusion import elementwise
from cpuaccel.quant._fusion.model import Model, has_hooks
from cpuaccel.quant._lowering import embedding, layers
from cpuaccel.quant._torch_ao import QUANTIZES, kind_of

_LEAVES = layers.MODULES.keys() | embedding.MODULES
"""Modules with a lowering of their own."""

_FLOATS = "floats"
_QUANTIZED = "quantized"

_DEQUANTIZES = (torch.dequantize, Tensor.dequantize)
_NO_VALUES = frozenset(["size", "dim", "numel", "stride", "ndimension", "int_repr", "dequantize"])
"""Methods of a quantized tensor that return no quantized tensor."""


class Untraceable(Exception):
    """A module cannot become a graph; the message is the reason."""


def parts_of(model: nn.Module) -> dict[nn.Module, GraphModule]:
    """Return graphs of the outermost parts of `model`, or of `model` if it can be traced."""
    found: dict[nn.Module, GraphModule] = {}
    reasons: list[str] = []
    _add_parts("", model, found, reasons)
    for part, graph in found.items():
        if is_quantized_module(part):  # torch.ao's layers have no mode, and may be left in training
            graph.training = model.training
    if not found and reasons:
        raise TypeError(
            f"cpuaccel.quant.lower: model: {type(model).__name__} has quantized layers, but no part"
            f" of it can be lowered: {reasons[0]}"
        )
    for reason in reasons[1:] if found else ():
        _log.logger.info("cpuaccel.quant.lower: %s", reason)
    return found


def _add_parts(
    path: str, module: nn.Module, found: dict[nn.Module, GraphModule], reasons: list[str]
) -> None:
    if isinstance(module, GraphModule) or module in found or not holds_quantized(module):
        return
    try:
        found[module] = graph_of(module, called_by_user=not path)
    except Untraceable as why:
        reasons.append(f"{path or type(module).__name__}: {why}")
        if is_quantized_module(module):
            name = path or type(module).__name__
            _log.logger.warning("cpuaccel.quant.lower: %s is not lowered: %s", name, why)
        else:
            for name, child in module.named_children():
                _add_parts(f"{path}.{name}" if path else name, child, found, reasons)


def graph_of(module: nn.Module, *, called_by_user: bool) -> GraphModule:
    """Return a graph of `module`, for calls that pass only its required arguments.

    Args:
        module: it is not changed; the graph shares its layers and tensors.
        called_by_user: whether the user calls `module` itself. Otherwise the module that contains
            it does, which may pass optional arguments.

    Raises:
        Untraceable: it has no graph, or quantized tensors would enter or leave a part.
    """
    names = _required(module, called_by_user)
    # A forward may assign attributes, so a mirror of the module is traced.
    root: Any = _holder(module) if is_quantized_module(module) else structure_of(module)
    root.__class__ = _taking(type(root), names)
    try:
        graph = _Tracer().trace(root)
    except Exception as error:
        raise Untraceable(f"torch.fx cannot trace it: {_log.first_line(error)}") from error
    traced = GraphModule(root, graph, type(module).__name__)
    if not is_quantized_module(module):
        _share_layers(traced, module)
    traced.training = module.training
    _check_quantized(traced, called_by_user)
    return traced


def _required(module: nn.Module, called_by_user: bool) -> list[str]:
    if is_quantized_module(module):
        if kind_of(module) not in _LEAVES:
            raise Untraceable("cpuaccel.quant.lower has no rule for it")
        return ["input"]
    if any("forward" in vars(each) for each in module.modules()):
        raise Untraceable("the forward of a module in it was replaced")
    for path, part in module.named_modules():
        # Hooks of layers that a graph calls still run; other hooks would get the tracer's proxies.
        if path and has_hooks(part) and not _Tracer().is_leaf_module(part, path):
            raise Untraceable(f"{path} has hooks")
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    if any(each.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for each in required):
        raise Untraceable(
            "its forward requires positional-only, keyword-only or variable arguments"
        )
    if len(parameters) > len(required) and not called_by_user:
        raise Untraceable("its forward takes optional arguments")
    return [each.name for each in required]


def _holder(layer: nn.Module) -> nn.Module:
    holder = _Holder()
    holder.layer = layer
    return holder


class _Holder(nn.Module):
    """Calls one layer, because torch.fx traces what a module calls, not the module itself."""

    layer: nn.Module

    def forward(self, *given: Any) -> Any:
        return self.layer(*given)


def _taking(cls: type[nn.Module], names: list[str]) -> type[nn.Module]:
    """Return a class whose forward takes only these arguments: torch.fx reads them in its code."""
    scope: dict[str, Any] = {"called": cls.forward}
    listed = ", ".join(["self", *names])
    exec(f"def forward({listed}):\n    return called({listed})", scope)
    return type(cls.__name__, (cls,), {"forward": scope["forward"]})


def _share_layers(traced: GraphModule, module: nn.Module) -> None:
    """Make the graph call the layers of `module` itself, not those of its mirror."""
    for node in traced.graph.find_nodes(op="call_module"):
        owner, _, name = str(node.target).rpartition(".")
        parent = traced.get_submodule(owner)
        parent._modules[name] = module.get_submodule(str(node.target))


class _Tracer(Tracer):
    """A tracer that knows which values are quantized tensors, because torch.ao's functions ask."""

    proxy_buffer_attributes = True

    def proxy(self, node: Node) -> Proxy:
        return _Proxy(node, self)


class _Proxy(Proxy):
    @property
    def is_quantized(self) -> bool:
        tracer: Any = self.tracer
        return _kinds(tracer.root, self.node.graph)[self.node] == _QUANTIZED


def _kinds(root: nn.Module, graph: Graph) -> dict[Node, str]:
    kinds: dict[Node, str] = {}
    for node in graph.nodes:
        kinds[node] = _kind(root, node, [kinds[source] for source in node.all_input_nodes])
    return kinds


def _kind(root: nn.Module, node: Node, sources: list[str]) -> str:
    """Return whether a node returns quantized tensors or anything else."""
    if node.op == "get_attr":
        value: Any = root
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return _QUANTIZED if isinstance(value, Tensor) and value.is_quantized else _FLOATS
    target: Any = node.target
    if node.op == "call_module":
        made = _made_by_module(root.get_submodule(str(target)))
    elif node.op == "call_method":
        made = _FLOATS if target in _NO_VALUES else ""
    elif node.op == "call_function":
        made = _made_by_function(target)
    else:
        made = _FLOATS if node.op == "placeholder" else ""
    return made or (_QUANTIZED if _QUANTIZED in sources else _FLOATS)


def _made_by_module(module: nn.Module) -> str:
    if kind_of(module) in ("quantized.DeQuantize", *embedding.MODULES):
        return _FLOATS
    name = layers.MODULES.get(kind_of(module), "")
    if name:
        return _FLOATS if layers.KINDS[name].dynamic else _QUANTIZED
    if not is_quantized_module(module) or "dynamic" in type(module).__module__:
        return ""
    return _QUANTIZED


def _made_by_function(target: Any) -> str:
    if target in _DEQUANTIZES or target is getattr:
        return _FLOATS
    if target in QUANTIZES:
        return _QUANTIZED
    name = elementwise.op_name(target)
    if not name.startswith("quantized::"):
        return ""
    is_of_floats = name.endswith(("_dynamic", "_dynamic_fp16")) or "embedding" in name
    return _FLOATS if is_of_floats else _QUANTIZED


def _check_quantized(traced: GraphModule, called_by_user: bool) -> None:
    """Raise Untraceable if quantized tensors would enter the part, or leave one inside a model."""
    kinds = _kinds(traced, traced.graph)
    model = Model(traced)
    for node in traced.graph.nodes:
        if node.op == "output":
            if not called_by_user and any(
                kinds[each] == _QUANTIZED for each in node.all_input_nodes
            ):
                raise Untraceable("it returns quantized tensors")
        elif _expects_quantized(node, model.called(node)):
            first = next(iter(_operands(node)), None)
            if first is not None and kinds[first] != _QUANTIZED:
                raise Untraceable(
                    f"{node.name} expects a quantized tensor, but its input is not quantized"
                )


def _operands(node: Node) -> Iterator[Node]:
    return (each for each in node.all_input_nodes if each.op != "get_attr")


def _expects_quantized(node: Node, module: nn.Module | None) -> bool:
    if module is not None:
        name = layers.MODULES.get(kind_of(module), "")
        if name:
            return not layers.KINDS[name].dynamic
        makes = _made_by_module(module) == _QUANTIZED
        return makes and kind_of(module) != "quantized.Quantize"
    name = elementwise.op_name(node.target) if node.op == "call_function" else ""
    return name.startswith("quantized::") and _made_by_function(node.target) == _QUANTIZED
