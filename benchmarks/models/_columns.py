"""The columns of the int8 model benchmark: every way of running a model that is compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks import _plugin
from benchmarks._arguments import check_known
from benchmarks._quantize import convert
from benchmarks._report import Ratio, not_measured
from benchmarks._timing import Contender, Runner
from benchmarks.models import _compiled, _onnxruntime, _openvino, _peers, _pt2e
from benchmarks.models._job import Job

Prepare = Callable[[Job], Runner]


@dataclass(frozen=True)
class Column:
    """One way of running a model.

    `prepare` prepares a job and returns the call to be timed. `plugin` says whether cpuaccel is
    enabled while it is prepared and run. `missing` is the reason why it cannot run here, or "". A
    `peer`, such as another runtime, may fail on a model; `note` says how a peer makes its models.
    `in_torch` says that it runs on torch's threads.
    """

    name: str
    prepare: Prepare
    plugin: bool = False
    peer: bool = False
    missing: Callable[[], str] = str
    note: Callable[[], str] = str
    in_torch: bool = False

    def contender(self, job: Job) -> Contender:
        """Prepares `job` for timing."""
        around = partial(_plugin.enabled, self.plugin)
        with around():
            run = self.prepare(job)
        of_its_own = self.peer and not self.in_torch and torch.get_num_threads() > 1
        return Contender(run, _peers.apart if of_its_own else around)


def _fp32(job: Job) -> Runner:
    return partial(job.model, job.x)


def _int8(engine: str, job: Job, *, plugin: bool = False) -> Runner:
    return partial(convert(job.calibrated, engine, plugin=plugin), job.x)


def _compiled_int8(job: Job) -> Runner:
    converted = convert(job.calibrated, "x86", plugin=True)
    return _compiled.run_of(converted, job.inputs, "cpuaccel", torch.no_grad)


def _optimized_int8(job: Job) -> Runner:
    converted = convert(job.calibrated, "x86", plugin=True)
    return _compiled.optimized(converted, job.inputs, torch.no_grad)


def _fused(job: Job) -> Runner:
    converted = convert(job.calibrated, "x86", plugin=True)
    return partial(_plugin.fuse(converted), job.x)


def _planned_pt2e_missing() -> str:
    """Say what PT2E models with cpuaccel's plans lack; empty if nothing."""
    return _plugin.optimize_missing() or _pt2e.missing()


# Add a line here to add a peer.
COLUMNS: tuple[Column, ...] = (
    Column("fp32", _fp32),
    Column("fbgemm", partial(_int8, "fbgemm")),
    Column("x86", partial(_int8, "x86")),
    Column("cpuaccel", partial(_int8, "x86", plugin=True), plugin=True, missing=_plugin.missing),
    Column("cpuaccel+fuse", _fused, plugin=True, missing=_plugin.fuse_missing),
    Column(
        "cpuaccel+compile",
        _compiled_int8,
        plugin=True,
        missing=_compiled.backend_missing,
    ),
    Column(
        "cpuaccel+optimize",
        _optimized_int8,
        plugin=True,
        peer=True,
        in_torch=True,
        missing=_plugin.optimize_missing,
    ),
    Column("pt2e", _pt2e.eager, peer=True, in_torch=True, missing=_pt2e.missing),
    Column(
        "pt2e+eager",
        partial(_pt2e.eager, for_cpuaccel=True),
        plugin=True,
        peer=True,
        in_torch=True,
        missing=_planned_pt2e_missing,
    ),
    Column(
        "pt2e+optimize",
        _pt2e.optimized,
        plugin=True,
        peer=True,
        in_torch=True,
        missing=_planned_pt2e_missing,
    ),
    Column(
        "pt2e+inductor",
        _pt2e.with_inductor,
        peer=True,
        in_torch=True,
        missing=_pt2e.missing,
        note=_pt2e.note,
    ),
    Column(
        "pt2e+cpuaccel",
        _pt2e.with_backend,
        plugin=True,
        peer=True,
        in_torch=True,
        missing=lambda: _compiled.backend_missing() or _pt2e.missing(),
    ),
    Column(
        "onnxruntime",
        _onnxruntime.prepare,
        peer=True,
        missing=_onnxruntime.missing,
        note=_onnxruntime.note,
    ),
    Column(
        "openvino",
        _openvino.prepare,
        peer=True,
        missing=_openvino.missing,
        note=_openvino.note,
    ),
)

# The columns that need only torch, or torch and cpuaccel.
TORCH_COLUMNS = tuple(column.name for column in COLUMNS if not column.peer)

RATIOS: tuple[Ratio, ...] = (
    Ratio("cpuaccel", "fbgemm"),
    Ratio("cpuaccel", "x86"),
    Ratio("x86", "fbgemm"),
    Ratio("cpuaccel", "onnxruntime"),
    Ratio("cpuaccel", "openvino"),
    Ratio("cpuaccel+fuse", "cpuaccel"),
    Ratio("cpuaccel+fuse", "x86"),
    Ratio("cpuaccel+fuse", "onnxruntime"),
    Ratio("cpuaccel+fuse", "openvino"),
    Ratio("cpuaccel+compile", "cpuaccel"),
    Ratio("cpuaccel+compile", "cpuaccel+fuse"),
    Ratio("cpuaccel+compile", "openvino"),
    Ratio("cpuaccel+optimize", "openvino"),
    Ratio("pt2e+cpuaccel", "cpuaccel"),
    Ratio("pt2e+cpuaccel", "pt2e+inductor"),
    Ratio("pt2e+eager", "pt2e"),
    Ratio("pt2e+optimize", "cpuaccel+optimize"),
)


def choose(
    names: list[str], columns: Sequence[Column] | None = None
) -> tuple[list[Column], list[str]]:
    """The `columns` named `names` that can run here, and notes on them.

    `columns` None means those of int8; empty `names` means all.
    """
    columns = COLUMNS if columns is None else columns
    known = {column.name: column for column in columns}
    check_known(names, known, "engine")
    wanted = [known[name] for name in names] if names else list(columns)
    reasons = {column.name: column.missing() for column in wanted}
    chosen = [column for column in wanted if not reasons[column.name]]
    notes = [note for column in chosen if (note := column.note())]
    return chosen, notes + not_measured(reasons)
