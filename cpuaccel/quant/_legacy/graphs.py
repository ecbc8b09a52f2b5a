"""A graph that is read from a file: its nodes, and the modules and constants that they name."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.fx.node import Argument

from cpuaccel.quant._fusion.model import Model
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.packed import Cell
from cpuaccel.quant._lowering.integers import IntegerTensor, UnpackedLayer
from cpuaccel.quant._lowering.lowering import Lowering
from cpuaccel.quant._torch_ao import DescribedModule, QuantizedOp

_PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
_STAND_INS = (IntegerTensor, UnpackedLayer, Cell)


class FileModel(Model):
    """A graph whose modules and attributes are in tables. Unlike a GraphModule it cannot run."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.modules: dict[str, nn.Module] = {}
        self.constants: dict[str, Any] = {}

    def called(self, node: Node) -> nn.Module | None:
        """Return the module that `node` calls, if it calls one."""
        return self.modules[str(node.target)] if node.op == "call_module" else None

    def constant(self, node: object) -> object:
        """Return the value of a get_attr node, or of an argument that is a value itself."""
        if isinstance(node, Node) and node.op == "get_attr":
            return self.constants[str(node.target)]
        return node

    def get_constant(self, path: str, value: Any) -> Node:
        """Return a node that gets a constant: a tensor, packed weights, or a number."""
        _check_path(path)
        if not isinstance(value, (*_STAND_INS, Tensor, int, float, type(None))):
            raise LegacyError(f"attribute {path} is a {type(value).__name__}, not a tensor")
        self.constants[path] = value
        return self.graph.create_node("get_attr", path)

    def call(self, path: str, module: nn.Module, args: tuple[Argument, ...], kwargs: Any) -> Node:
        """Return a node that calls a module."""
        _check_path(path)
        self.modules[path] = module
        return self.graph.create_node("call_module", path, args, kwargs)


def _check_path(path: str) -> None:
    """Raise LegacyError for other characters: torch.fx writes paths into code that it executes."""
    if not _PATH.fullmatch(path) or path.startswith("__") or ".__" in path:
        raise LegacyError(f"a module or attribute is called {path!r}: expected letters and digits")


class FileLowering(Lowering):
    """Lowers such a graph. Nothing may stay on torch's quantized tensors."""

    def as_result(self, argument: Argument) -> Argument:
        """Return what the graph returns, as floats."""
        return self.as_float(argument)

    def put_unlowered(self, node: Node, value: Node, called: str) -> None:
        """Raise: `called` has no rule."""
        raise LegacyError(
            f"node {node.name} calls {called} on a quantized tensor, for which cpuaccel has no rule"
        )

    def copy(self, node: Node, read: Any) -> Node:
        """Write `node` again. It must not call a stand-in of a module or an op."""
        module = self.model.called(node)
        if isinstance(module, DescribedModule):
            raise LegacyError(f"node {node.name} calls a {module.kind}, which has no rule here")
        if isinstance(node.target, QuantizedOp):
            raise LegacyError(f"node {node.name} calls {node.target.name}, which has no rule here")
        new = super().copy(node, read)
        if node.op == "get_attr" and isinstance(self.model.constant(node), _STAND_INS):
            # The layers that read packed weights unpack them. Then nothing reads this node.
            self.emit.attributes[str(node.target)] = torch.zeros(0)
        return new
