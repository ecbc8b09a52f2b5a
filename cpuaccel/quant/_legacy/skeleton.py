"""Puts the quantized layers of a file into a model of the user: state dicts, and own classes.

A state dict has no graph, and the pickle of a module of an own class has no source. So the user
passes the float model that was quantized (or what torch.ao made of it). Its forward is traced with
torch.fx, and the layers that the file has take the place of the model's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer

from cpuaccel import _log
from cpuaccel._modules import structure_of
from cpuaccel.quant._legacy import layers
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.graphs import FileModel
from cpuaccel.quant._legacy.quantized_ops import QUANTIZED_OPS
from cpuaccel.quant._legacy.state import STUBS, State
from cpuaccel.quant._torch_ao import DescribedModule, kind_of

_FUNCTIONAL = "quantized.QFunctional"


def filled(model: nn.Module, state: State) -> nn.Module:
    """Return the model with the layers and weights of a file, on plain tensors.

    Args:
        model: its structure and forward are those of the quantized model; it is not changed.
        state: what the file has for its modules, by path.
    """
    leaves = state.leaves(model)
    if "" in leaves:
        return layers.chain({"layer": leaves[""]}, type(model).__name__)
    if isinstance(model, GraphModule):
        return _filled_graph(model, leaves, state)
    if state.is_of_graph():
        raise LegacyError(
            "model: the state dict is that of a model of convert_fx, whose graph differs from"
            f" {type(model).__name__}'s: pass what convert_fx returned for it, or a file of"
            " torch.save(model) or torch.jit.save"
        )
    if all(isinstance(each, nn.Identity) for each in leaves.values()):
        raise LegacyError(
            f"model: none of the quantized layers of the file is in {type(model).__name__}:"
            f" it has {', '.join(state.examples())}"
        )
    if all(_is_dynamic(each) for each in leaves.values()):
        return _with_parts(model, leaves, state)
    root = _with_floats(model, leaves, state)
    return _lowered(root, _graph_of(root, leaves), leaves)


def _is_dynamic(leaf: nn.Module) -> bool:
    """Return whether a layer takes floats (or indices) and returns floats."""
    kind = kind_of(leaf)
    return not kind or ".dynamic." in kind or kind == "quantized.Embedding"


def _with_parts(model: nn.Module, leaves: dict[str, nn.Module], state: State) -> nn.Module:
    """Replace dynamic layers where they are. The forward stays the user's, and is not traced."""
    memo: dict[int, object] = {}
    for path, leaf in leaves.items():
        lowered = layers.chain({path: leaf}, type(leaf).__name__) if kind_of(leaf) else leaf
        memo[id(model.get_submodule(path))] = lowered
    made = copy.deepcopy(model, memo)
    state.load_floats(made, leaves)
    return made.eval()


def _filled_graph(model: GraphModule, leaves: dict[str, nn.Module], state: State) -> GraphModule:
    """Return what convert_fx returned, with the values of a state dict."""
    own = {path: state.value(path) for path in _attributes_of(model.graph)}
    return _lowered(model, model.graph, leaves, {k: v for k, v in own.items() if v is not None})


def _attributes_of(graph: Graph) -> set[str]:
    return {str(node.target) for node in graph.nodes if node.op == "get_attr"}


def _lowered(
    root: nn.Module,
    graph: Graph,
    leaves: dict[str, nn.Module],
    values: Mapping[str, object] | None = None,
) -> GraphModule:
    """Return a graph of `root` with plain tensors. `values` are those of the file, by path."""
    model = FileModel()
    model.graph = graph
    model.constants = {path: _attribute(root, path) for path in _attributes_of(graph)}
    model.constants |= values or {}
    for node in graph.find_nodes(op="call_module"):
        model.modules[str(node.target)] = _called(root, str(node.target), leaves)
    return layers.lowered(model, type(root).__name__)


def _with_floats(model: nn.Module, leaves: dict[str, nn.Module], state: State) -> nn.Module:
    """Return a copy of the model with the file's float tensors, and with its quantized layers."""
    copied = copy.deepcopy(model, {id(model.get_submodule(p)): nn.Identity() for p in leaves})
    state.load_floats(copied, leaves)
    for path, leaf in leaves.items():
        _put(copied, path, _Functional(leaf) if kind_of(leaf) == _FUNCTIONAL else leaf)
    return copied


def _graph_of(root: nn.Module, leaves: dict[str, nn.Module]) -> Graph:
    try:
        # A forward may assign attributes, so a mirror of the module is traced.
        return _Tracer(leaves).trace(structure_of(root))
    except LegacyError:
        raise
    except Exception as error:  # the user's forward may raise anything
        raise LegacyError(
            f"model: torch.fx cannot trace {type(root).__name__}: {_log.first_line(error)}."
            " Pass a model without branches on its inputs, or a file of torch.jit.save"
        ) from error


def _called(root: nn.Module, path: str, leaves: dict[str, nn.Module]) -> nn.Module:
    module = leaves.get(path) or root.get_submodule(path)
    name = "" if kind_of(module) else type(module).__name__
    if name == "DeQuantStub":
        return DescribedModule("quantized.DeQuantize", {})
    return nn.Identity() if name in STUBS else module.eval()


def _put(root: nn.Module, path: str, module: nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    root.get_submodule(owner)._modules[name] = module


def _attribute(root: nn.Module, path: str) -> object:
    value: object = root
    for name in path.split("."):
        value = getattr(value, name)
    return value.detach() if isinstance(value, Tensor) else value


class _Tracer(Tracer):
    def __init__(self, leaves: dict[str, nn.Module]) -> None:
        super().__init__()
        self._leaves = leaves

    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        if path in self._leaves or type(module).__name__ in STUBS:
            return True
        return super().is_leaf_module(module, path) and not kind_of(module)


class _Functional(nn.Module):
    """Records the calls of a QFunctional, which a forward makes as `self.f.add(x, y)`."""

    def __init__(self, leaf: nn.Module) -> None:
        super().__init__()
        values: Any = leaf
        self._quantizer = float(values.scale), int(values.zero_point)

    def _record(self, name: str, *args: Any) -> Proxy:
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        tracer: Any = first.tracer
        node: Node = tracer.create_node(
            "call_function", QUANTIZED_OPS[name], tracer.create_arg(args), {}
        )
        return Proxy(node, tracer)

    def add(self, x: Any, y: Any) -> Proxy:
        """x + y"""
        return self._record("add", x, y, *self._quantizer)

    def add_relu(self, x: Any, y: Any) -> Proxy:
        """relu(x + y)"""
        return self._record("add_relu", x, y, *self._quantizer)

    def mul(self, x: Any, y: Any) -> Proxy:
        """x * y"""
        return self._record("mul", x, y, *self._quantizer)

    def matmul(self, x: Any, y: Any) -> Proxy:
        """x @ y"""
        return self._record("matmul", x, y, *self._quantizer)

    def cat(self, x: Any, dim: int = 0) -> Proxy:
        """A concatenation."""
        return self._record("cat", list(x), dim, *self._quantizer)

    def add_scalar(self, x: Any, y: float) -> Proxy:
        """x + y, with y a number"""
        return self._record("add_scalar", x, y)

    def mul_scalar(self, x: Any, y: float) -> Proxy:
        """x * y, with y a number"""
        return self._record("mul_scalar", x, y)
