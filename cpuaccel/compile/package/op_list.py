"""A graph as a JSON list of ops, which runs without torch.export.

torch.export.load takes seconds in a fresh process, most of them for imports. A program of calls on
tensors, and of arithmetic on their sizes, without control flow, needs none of these imports.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from cpuaccel._compat import tree_leaves, treespec_dumps, treespec_loads
from cpuaccel.compile.bridge import op_json
from cpuaccel.compile.bridge.translation import Fallback
from cpuaccel.compile.capture.graph_runner import bound_region, unwrapping
from cpuaccel.compile.capture.module_attributes import DictSnapshot
from cpuaccel.compile.package.schemas import REGION

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def encode(program: ExportedProgram) -> dict[str, Any]:
    """Return `program` as JSON values, with its `ops` in the format of op_json.

    Values are numbered: first `weights`, by name, and `inputs`, in the order of the graph; then one
    for each op.

    Raises:
        Fallback: it mutates weights or inputs, or an argument cannot be written as JSON.
    """
    from torch.export.graph_signature import InputKind, OutputKind

    signature = program.graph_signature
    if any(each.kind is not OutputKind.USER_OUTPUT for each in signature.output_specs):
        raise Fallback("it mutates weights or inputs")
    writer = op_json.Writer()
    weights: dict[str, str] = {}
    inputs: list[int] = []
    specs = iter(signature.input_specs)
    for node in program.graph.nodes:
        if node.op == "output":
            outputs = writer.written(node.args[0])
        elif node.op == "placeholder":
            number, spec = writer.add_value(node), next(specs)
            if spec.kind is InputKind.USER_INPUT:
                inputs.append(number)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                weights[str(number)] = str(spec.target)
            else:
                raise Fallback(f"it has an input of kind {spec.kind}")
        elif node.op == "call_function" and op_json.is_named(node.target):
            writer.add_op(node.target, *writer.arguments(node), node)
        else:
            raise Fallback(f"it has a node {node.op} {node.target}")
    assert program.call_spec.out_spec is not None
    return {
        "weights": weights,
        "inputs": inputs,
        "ops": writer.ops,
        "outputs": outputs,
        "out": treespec_dumps(program.call_spec.out_spec),
    }


@dataclass(frozen=True)
class _BoundCalls:
    """The calls of a list of ops, bound to the weights that it had."""

    snapshot: DictSnapshot
    lines: list[op_json.Read]
    results: op_json.Read


class OpList(nn.Module):
    """Runs what `encode` returned, on `weights` by their names, which become its buffers."""

    def __init__(self, facts: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.training = False
        self._weights: dict[int, tuple[nn.Module, str]] = {}
        for number, name in facts["weights"].items():
            self._weights[int(number)] = _held(self, name, weights[name])
        self._inputs = list(facts["inputs"])
        self._given = len(self._weights) + len(self._inputs)
        self._ops = facts["ops"]
        self._outputs = facts["outputs"]
        self._forget = _last_uses(self._ops, self._outputs, self._given)
        self._unwrap = unwrapping(treespec_loads(facts["out"]))
        self._bound: _BoundCalls | None = None
        self._runs: list[list[int]] | None = None
        """While ops are timed: the times of each run."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the program returns. The arguments are those that it was exported for."""
        bound = self._bound
        if bound is None or not bound.snapshot.is_unchanged():
            bound = self._bound = self._bind()
        values: list[Any] = [None] * self._given
        for number, leaf in zip(self._inputs, tree_leaves((args, kwargs)), strict=True):
            values[number] = leaf
        for line, forget in zip(bound.lines, self._forget, strict=True):
            values.append(line(values))
            for number in forget:
                values[number] = None
        return self._unwrap(bound.results(values))

    def _bind(self) -> _BoundCalls:
        snapshot = DictSnapshot([owner._buffers for owner, _ in self._weights.values()])
        weights = {number: owner._buffers[name] for number, (owner, name) in self._weights.items()}
        lines = [_line(op, weights) for op in self._ops]
        if self._runs is not None:
            runs = self._runs
            lines = [_timed(line, runs, number == 0) for number, line in enumerate(lines)]
        return _BoundCalls(snapshot, lines, op_json.reader(self._outputs, weights))

    def __getstate__(self) -> dict[str, Any]:
        # A copy binds its calls again.
        return {**self.__dict__, "_bound": None}

    @contextmanager
    def timed(self) -> Iterator[list[list[int]]]:
        """Collect the time of each op in the block: for each run, nanoseconds by op, in order.

        Only one thread may run the program during that time.
        """
        self._runs, self._bound = [], None
        try:
            yield self._runs
        finally:
            self._runs = self._bound = None


def _held(root: nn.Module, name: str, tensor: Tensor) -> tuple[nn.Module, str]:
    """Register a weight under its dotted name; return the owner and the attribute's name."""
    *path, last = name.split(".")
    owner = root
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, nn.Module())
        owner = owner.get_submodule(part)
    owner.register_buffer(last, tensor)
    return owner, last


def _line(op: Sequence[Any], weights: Mapping[int, Any]) -> op_json.Read:
    """Return a function that calls an op on values."""
    name, args, _ = op
    if name == REGION and weights.keys() >= set(op_json.numbers_in(args[1])):
        inputs, constants, *texts = args
        bound = bound_region(op_json.reader(constants, weights)([]), *texts)
        given = op_json.reader(inputs, weights)
        return lambda values: bound(given(values))
    return op_json.caller(op, weights)


def _timed(line: op_json.Read, runs: list[list[int]], is_first: bool) -> op_json.Read:
    def run(values: list[Any]) -> Any:
        if is_first:
            runs.append([])
        start = time.perf_counter_ns()
        result = line(values)
        runs[-1].append(time.perf_counter_ns() - start)
        return result

    return run


def _last_uses(ops: Sequence[Any], outputs: Any, given: int) -> list[list[int]]:
    """Return, for each op, the values that no later op reads."""
    last = {given + position: position for position in range(len(ops))}
    for position, (_, args, keywords) in enumerate(ops):
        for number in op_json.numbers_in([args, *keywords.values()]):
            last[number] = position
    for number in op_json.numbers_in(outputs):
        last.pop(number, None)
    forget: list[list[int]] = [[] for _ in ops]
    for number, position in last.items():
        forget[position].append(number)
    return forget
