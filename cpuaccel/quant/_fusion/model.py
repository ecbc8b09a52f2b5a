"""Model: a convert_fx GraphModule as the passes that rewrite its graph see it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import Argument

from cpuaccel.quant._fusion import elementwise

_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"),
    "_forward_hooks_always_called",
)


class Model:
    """A GraphModule while it is rewritten."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.graph = module.graph

    def called(self, node: Node) -> nn.Module | None:
        """Return the module that `node` calls, if it calls one."""
        if node.op != "call_module":
            return None
        return self.module.get_submodule(str(node.target))

    def constant(self, node: Node) -> object:
        """Return the value of a get_attr node."""
        value: object = self.module
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return value

    def number(self, value: object) -> float | int | None:
        """Return a number, or the number that an attribute holds; else None."""
        if isinstance(value, Node) and value.op == "get_attr":
            value = self.constant(value)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_quantized:
            value = value.item()
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def operands(self, node: Node) -> list[Node]:
        """Return the nodes that `node` reads, except numbers."""
        return [source for source in node.all_input_nodes if self.number(source) is None]

    def is_elementwise(self, node: Node) -> bool:
        """Return whether `node` is on the list of elementwise functions and has no hooks."""
        module = self.called(node)
        return elementwise.is_elementwise(node, module) and not has_hooks(module)

    def is_same(self, node: Node) -> bool:
        """Return whether `node` returns its operand."""
        return elementwise.is_same(node, self.called(node))

    def is_view_op(self, node: Node) -> bool:
        """Return whether `node` only moves values and has no hooks."""
        module = self.called(node)
        same_dtype = not any(isinstance(arg, torch.dtype) for arg in node.args)
        return same_dtype and elementwise.is_view_op(node, module) and not has_hooks(module)

    def mutates(self, node: Node) -> bool:
        """Return whether `node` mutates an operand."""
        return elementwise.mutates(node, self.called(node))

    def insert_call(self, path: str, module: nn.Module, operands: tuple[Argument, ...]) -> Node:
        """Add `module` at `path`, new or replaced, and call it at the graph's insertion point."""
        parent, _, name = path.rpartition(".")
        self.module.get_submodule(parent).add_module(name, module)
        return self.graph.call_module(path, operands)

    def path_for(self, nodes: Iterable[Node], name: str) -> str:
        """Return the path for a module that replaces `nodes`.

        That is the first path that only these nodes call, or else a new path at the top, made of
        `name`.
        """
        calls = [str(n.target) for n in self.graph.nodes if n.op == "call_module"]
        for node in nodes:
            path = str(node.target)
            if node.op == "call_module" and calls.count(path) == 1 and not _holds(path, calls):
                return path
        path = name
        while hasattr(self.module, path):
            path += "_"
        return path

    def erase_unused(self, nodes: Iterable[Node]) -> None:
        """Erase those of `nodes` that have no users left. Users must come before what they use.

        Modules and attributes that no node of the graph names any more are deleted.
        """
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            if node.users or node._erased or node.op in ("placeholder", "output"):
                continue
            sources = node.all_input_nodes
            self.graph.erase_node(node)
            self._delete(node)
            waiting.extend(source for source in sources if source.op == "get_attr")

    def _delete(self, erased: Node) -> None:
        if erased.op not in ("call_module", "get_attr"):
            return
        path = str(erased.target)
        named = [str(n.target) for n in self.graph.nodes if n.op in ("call_module", "get_attr")]
        if path in named or _holds(path, named):
            return
        parent, _, name = path.rpartition(".")
        delattr(self.module.get_submodule(parent), name)


def check_converted(function: str, model: GraphModule) -> None:
    """Raise ValueError, in the name of `function`, unless `model` is converted and not training."""
    if "_observed_graph_module_attrs" in model.meta:
        raise ValueError(
            f"{function}: model: expected a converted model, but it is prepared but not converted;"
            " call convert_fx first"
        )
    if model.training:
        raise ValueError(
            f"{function}: model: expected evaluation mode, but it is in training mode;"
            " call model.eval() first"
        )


def has_hooks(module: nn.Module | None) -> bool:
    """Return whether `module` has hooks, which a fused module would not call."""
    return module is not None and any(hooks_of(module).values())


def hooks_of(module: nn.Module) -> dict[str, Any]:
    """Return the attributes in which `module` keeps its hooks, by name."""
    return {name: vars(module)[name] for name in _HOOKS if name in vars(module)}


def _holds(path: str, paths: Iterable[str]) -> bool:
    """Return whether one of `paths` lies below `path`."""
    return any(other.startswith(path + ".") for other in paths)
