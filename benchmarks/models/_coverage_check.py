"""Compiles one model for the coverage benchmark and compares it with eager mode."""

import gc
import importlib
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import config

from benchmarks import _plugin
from benchmarks._quantize import calibrate, convert
from benchmarks._timing import Around
from benchmarks.models._coverage_case import Case, Inputs, tensors_of
from benchmarks.models._modes import mode
from cpuaccel.compile.validate import bounds

# The model is compiled for the first inputs; the others reveal a value cached by mistake.
_INPUTS = 2

THROUGH = ("compile", "optimize")
"""How a model is run: torch.compile with cpuaccel's backend, or cpuaccel.optimize."""

_JUDGES = {"fp32": bounds.fp32_error, "bf16": bounds.half_error, "int8": bounds.int8_error}


@dataclass
class Outcome:
    """The result of one model in one mode."""

    name: str
    mode: str
    through: str = "compile"
    compiles: bool = False
    matches: bool = False
    problem: str = ""
    """Why it does not compile or match, or ""."""
    error: float = 0.0
    """The largest error of all outputs, as cpuaccel.compile.validate.bounds defines it."""
    allowed: float = 0.0
    """The bound on that error."""
    against: str = "eager"
    """The reference of the error."""
    graphs: int = 0
    breaks: dict[str, int] = field(default_factory=dict)
    """Graph breaks by torch's reasons."""
    regions: int = 0
    """cpuaccel's regions that ran in one call of the model."""
    partitions: int = 0
    left: dict[str, int] = field(default_factory=dict)
    """Ops that fell back to Inductor or torch, "op: reason"."""
    seconds: float = 0.0
    """Time of all work for this row."""

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)


def check(case: Case, mode_name: str, through: str = "compile") -> Outcome:
    """Compile or optimize `case` and compare; failures are recorded in the outcome, never raised.

    `through` is one of THROUGH.
    """
    outcome = Outcome(case.name, mode_name, through)
    start = time.perf_counter()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    reports = importlib.import_module("cpuaccel.compile.common.report")
    reports.clear()
    try:
        model = case.model()
        # A graph from Inductor's disk cache would report no partitions.
        with (
            torch.inference_mode(),
            _plugin.enabled(True),
            config.patch(force_disable_caches=True),
        ):
            _compare(model, case.some_inputs(_INPUTS), outcome)
    except Exception as error:
        outcome.problem = f"{type(error).__name__}: {_first_line(str(error))}"
    made = reports.reports()
    if through == "compile":
        outcome.graphs = int(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    breaks = torch._dynamo.utils.counters["graph_break"]
    outcome.breaks = {_first_line(reason): count for reason, count in breaks.items()}
    if outcome.compiles and not 0 < outcome.graphs <= len(made):
        # torch runs graphs that it cannot capture eagerly, Inductor those that the pass fails on.
        outcome.compiles = outcome.matches = False
        outcome.problem = f"cpuaccel's pass took part in {len(made)} of {outcome.graphs} graphs"
    outcome.partitions = sum(len(region) for report in made for region in report.regions)
    left = Counter(f"{each.op}: {each.reason}" for report in made for each in report.left)
    outcome.left = dict(left.most_common())
    outcome.seconds = time.perf_counter() - start
    torch._dynamo.reset()
    gc.collect()
    return outcome


def _compare(model: nn.Module, inputs: list[Inputs], outcome: Outcome) -> None:
    name = outcome.mode
    within: Around = nullcontext if name == "int8" else mode(name).plugin
    outcome.against = {"fp32": "eager", "bf16": "fp32", "int8": "eager"}[name]
    if name == "int8":
        prepared = calibrate(model, [each.args[0] for each in inputs])
        model = convert(prepared, "x86", plugin=True)
    exact = [_outputs(model, each) for each in inputs]
    eager = [_outputs(model, each, within) for each in inputs] if name == "bf16" else exact
    made = _made(model, inputs[0], outcome, within)
    if outcome.problem:
        return
    found = [_outputs(made, each, within) for each in inputs]
    outcome.compiles = True
    calls = _plugin.calls_of(lambda: _outputs(made, inputs[0], within))
    outcome.regions = calls.get("graph_region.cpuaccel", 0)
    _judge_all(outcome, found, eager, exact, _JUDGES[name])
    if name == "fp32" and bounds.FP32_BOUND < outcome.error < bounds.ROUNDING:
        _judge_all(outcome, found, eager, _in_float64(model, inputs), bounds.rounding_error)
        outcome.against = "float64"
    if name == "int8" and outcome.error > bounds.INT8_BOUND:
        wide = [_quantized_in_float64(model, each) for each in inputs]
        _judge_all(outcome, found, eager, wide, bounds.int8_error_from_exact)
        outcome.against = "float64"
    outcome.matches = not outcome.problem


def _made(model: nn.Module, inputs: Inputs, outcome: Outcome, within: Around) -> Callable[..., Any]:
    """The callable to compare; on failure the reason is in the outcome."""
    if outcome.through == "compile":
        compiled: Callable[..., Any] = torch.compile(model, backend="cpuaccel", dynamic=False)
        return compiled
    cpuaccel = importlib.import_module("cpuaccel")
    with within():
        optimized = cpuaccel.optimize(model, inputs.args, inputs.kwargs, time_budget=0)
    outcome.graphs = len(optimized.reports)
    if optimized.verdict.runs != "plan":
        outcome.problem = str(optimized.verdict)
    made: Callable[..., Any] = optimized
    return made


def _in_float64(model: nn.Module, inputs: list[Inputs]) -> list[list[Tensor]]:
    model.double()
    try:
        return [_outputs(model, each.double()) for each in inputs]
    finally:
        model.float()


def _quantized_in_float64(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    exact = importlib.import_module("cpuaccel.compile.validate.float64_reference")
    return tensors_of(exact.result(model, tuple(inputs.args), dict(inputs.kwargs)))


def _outputs(
    model: nn.Module | Callable[..., Any], inputs: Inputs, within: Around | None = None
) -> list[Tensor]:
    if within is None:
        return tensors_of(inputs.given_to(model))
    with within():
        return tensors_of(inputs.given_to(model))


def _judge_all(
    outcome: Outcome,
    found: list[list[Tensor]],
    eager: list[list[Tensor]],
    exact: list[list[Tensor]],
    judge: bounds.Judge,
) -> None:
    outcome.problem, outcome.error, outcome.allowed = "", 0.0, 0.0
    for result, expected, reference in zip(found, eager, exact, strict=True):
        _judge(outcome, result, expected, reference, judge)


def _judge(
    outcome: Outcome,
    found: list[Tensor],
    eager: list[Tensor],
    exact: list[Tensor],
    judge: bounds.Judge,
) -> None:
    if not eager or len(found) != len(eager):
        outcome.problem = f"{len(found)} tensors for eager's {len(eager)}"
        return
    for number, (a, b, c) in enumerate(zip(found, eager, exact, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            outcome.problem = (
                f"output {number}: {tuple(a.shape)} {a.dtype} for {tuple(b.shape)} {b.dtype}"
            )
            return
        if b.min() == b.max():
            outcome.problem = f"output {number}: eager's is {float(b.min()):g} everywhere"
            return
        error, allowed = judge(a, b, c)
        if not outcome.allowed or error / allowed > outcome.error / outcome.allowed:
            outcome.error, outcome.allowed = error, allowed
        # Written so that a NaN counts as a difference.
        if not error <= allowed:
            outcome.problem = f"output {number}: error {error:.2g}, at most {allowed:.2g}"


def _first_line(text: str) -> str:
    return (text.strip() or "no message").splitlines()[0]
