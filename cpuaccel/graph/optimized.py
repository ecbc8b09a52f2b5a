"""`cpuaccel.optimize(model, example_inputs)`: oneDNN's partitions from eager, without compiling."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_flatten

from cpuaccel import _log, _native
from cpuaccel.graph import choice, converted, regions, report, rewriting, torch_program
from cpuaccel.graph.attributes import Attributes
from cpuaccel.quant import engine, lower

_aten: Any = torch.ops.aten

_KEPT_SHAPES = 16

# Ops of torch that are others underneath: those are what oneDNN's are made from.
_TAKEN_APART = (
    _aten.conv1d.default,
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.conv3d.default,
    _aten.conv_transpose2d.input,
    _aten.linear.default,
    _aten.matmul.default,
    _aten.layer_norm.default,
    _aten.adaptive_avg_pool2d.default,
    _aten.max_pool2d.default,
    _aten.scaled_dot_product_attention.default,
)


@dataclass(frozen=True)
class _Captured:
    """What was made for inputs of one kind: a graph and what became of it, or why there is none."""

    run: Callable[..., Any] | None
    report: report.Report | None
    why_not: str = ""


class Optimized(nn.Module):
    """A model that runs what was captured of it, and itself wherever that does not hold.

    It has the model as `model`, whose weights both share.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)
        self._captured: OrderedDict[Any, _Captured] = OrderedDict()
        self._attributes: Attributes | None = None
        self._lock = threading.Lock()

    @property
    def reports(self) -> list[report.Report]:
        """What became of each graph that was captured and is kept."""
        with self._lock:
            return [each.report for each in self._captured.values() if each.report is not None]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        reason = self._why_not()
        if not reason:
            captured = self._captured_for(args, kwargs)
            if captured.run is not None:
                return captured.run(*args, **kwargs)
            reason = captured.why_not
        _native.load().count_fallback("optimize", reason)
        return self.model(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimized:
        return Optimized(copy.deepcopy(self.model, memo))

    def __reduce__(self) -> Any:
        # What was captured is captured again where it is loaded.
        return Optimized, (self.model,)

    def _why_not(self) -> str:
        if not engine.is_enabled():
            return "cpuaccel is off"
        if self.training or self.model.training:
            return "training mode"
        if torch.is_grad_enabled() and any(each.requires_grad for each in self.parameters()):
            return "gradients may be asked for: call it under torch.no_grad()"
        return ""

    def _captured_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Captured:
        key = _key(args, kwargs)
        with self._lock:
            if self._attributes is not None and not self._attributes.are_as_before():
                self._captured.clear()
                self._attributes = None
            captured = self._captured.get(key)
            if captured is None:
                captured = self._captured[key] = _capture(self.model, args, kwargs)
                self._attributes = self._attributes or Attributes(self.model)
                if len(self._captured) > _KEPT_SHAPES:
                    self._captured.popitem(last=False)
            self._captured.move_to_end(key)
        return captured


def optimize(model: nn.Module, example_inputs: Any) -> Optimized:
    """Return `model` with oneDNN's partitions in it, for inference in eager mode.

    `example_inputs` is a tuple of what a call brings; other sizes are captured when they come. The
    weights are the model's own, and may change.

    Raises:
        TypeError: `model` is no module, or `example_inputs` no tuple or list.
        ValueError: `model` is in training mode.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.optimize: model: expected a torch.nn.Module, got {type(model).__name__}"
        )
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(
            "cpuaccel.optimize: example_inputs: expected a tuple of what a call brings, got "
            f"{type(example_inputs).__name__}"
        )
    if model.training:
        raise ValueError(
            "cpuaccel.optimize: model: expected one in eval mode (model.eval()), got one in"
            " training mode"
        )
    optimized = Optimized(model)
    with torch.no_grad():
        optimized(*example_inputs)
    return optimized


def _capture(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Captured:
    try:
        return _Captured(*_graph_of(model, args, kwargs))
    except Exception as error:
        reason = _log.first_line(error)
        _log.logger.warning("optimize: the model runs as it is: %s", reason)
        return _Captured(None, None, f"not captured: {reason}")


def _graph_of(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[GraphModule, report.Report]:
    if converted.is_converted(model):
        model = lower(model)
    table = torch.export.default_decompositions()
    table_of: Any = {op: table[op] for op in _TAKEN_APART if op in table}
    with torch.no_grad():
        exported = torch.export.export(model, args, kwargs, strict=False)
        captured: Any = exported.run_decompositions(table_of).module(check_guards=False)
    graph = captured.graph
    written = {node.args[0] for node in graph.nodes if node.target is _aten.copy_.default}
    weights = {node for node in graph.find_nodes(op="get_attr") if node not in written}
    with choice.against_eager():
        found = regions.cut(graph, weights)
    made = report.describe(found)
    rewriting.put_regions(graph, found.regions)
    _views_of_numbers(graph)
    graph.eliminate_dead_code()
    captured.recompile()
    report.keep(made)
    return captured, made


def _views_of_numbers(graph: Graph) -> None:
    """Let views copy: what a region returns may lie in another way than what it stands for."""
    for node in graph.nodes:
        if node.target in torch_program.VIEWS:
            node.target = _aten.reshape.default


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    leaves, spec = tree_flatten((args, kwargs))
    return (
        spec,
        tuple(
            (each.shape, each.stride(), each.dtype, each.device)
            if isinstance(each, Tensor)
            else each
            for each in leaves
        ),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )
