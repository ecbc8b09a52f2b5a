"""The columns of the floating-point benchmark: torch, cpuaccel, and other runtimes."""

import copy
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._report import Ratio
from benchmarks._timing import Around, Runner
from benchmarks.models import _compiled, _onnxruntime, _openvino, _zentorch
from benchmarks.models._columns import Column
from benchmarks.models._job import Job
from benchmarks.models._modes import Mode

NAMES = (
    "torch",
    "cpuaccel",
    "cpuaccel+prepack",
    "inductor",
    "inductor+freezing",
    "torchscript",
    "cpuaccel+compile",
    "cpuaccel+optimize",
    "openvino",
    "onnxruntime",
    "zentorch",
)

RATIOS: tuple[Ratio, ...] = (
    *(
        Ratio(subject, base)
        for subject in ("cpuaccel", "cpuaccel+prepack")
        for base in ("torch", "openvino", "zentorch")
    ),
    *(
        Ratio("cpuaccel+compile", base)
        for base in ("inductor", "torchscript", "openvino", "zentorch")
    ),
)


def columns(mode: Mode) -> tuple[Column, ...]:
    """Every way of running a model in `mode`."""

    def in_torch(
        prepare: Callable[..., Runner], within: Around = mode.torch, **more: str
    ) -> Callable[[Job], Runner]:
        return lambda job: prepare(job.cast(mode.cast), within=within, **more)

    return (
        Column("torch", in_torch(_eager)),
        Column(
            "cpuaccel",
            in_torch(_eager, mode.plugin),
            plugin=True,
            missing=mode.plugin_missing,
        ),
        Column(
            "cpuaccel+prepack",
            in_torch(_prepacked, mode.plugin),
            plugin=True,
            missing=lambda: mode.plugin_missing() or _plugin.prepack_missing(),
        ),
        Column("inductor", in_torch(_compiled.prepare, backend="inductor")),
        Column("inductor+freezing", in_torch(_compiled.frozen), peer=True, in_torch=True),
        Column(
            "torchscript",
            _compiled.script,
            missing=partial(_compiled.script_missing, mode),
        ),
        Column(
            "cpuaccel+compile",
            in_torch(_compiled.prepare, mode.plugin, backend="cpuaccel"),
            plugin=True,
            missing=_compiled.backend_missing,
        ),
        Column(
            "cpuaccel+optimize",
            in_torch(_optimized, mode.plugin),
            plugin=True,
            peer=True,
            in_torch=True,
            missing=_plugin.optimize_missing,
        ),
        Column(
            "openvino",
            partial(_openvino.prepare_float, precision=mode.peer),
            peer=True,
            missing=_openvino.float_missing,
            note=partial(_openvino.float_note, mode.peer),
        ),
        Column(
            "onnxruntime",
            _onnxruntime.prepare_float,
            peer=True,
            missing=partial(_onnxruntime.float_missing, mode.peer),
            note=_onnxruntime.float_note,
        ),
        Column(
            "zentorch",
            in_torch(_zentorch.prepare),
            peer=True,
            in_torch=True,
            missing=_zentorch.missing,
            note=_zentorch.note,
        ),
    )


def _optimized(job: Job, within: Around) -> Runner:
    return _compiled.optimized(job.model, job.inputs, within)


def _eager(job: Job, within: Around) -> Runner:
    return partial(_call, job.model, job.inputs, within)


def _prepacked(job: Job, within: Around) -> Runner:
    return partial(_call, _plugin.prepack(copy.deepcopy(job.model)), job.inputs, within)


def _call(model: nn.Module, inputs: tuple[Tensor, ...], within: Around) -> object:
    with within():
        return model(*inputs)
