"""The columns of the floating-point benchmark: torch, the plugin, and other runtimes."""

import copy
from functools import partial

from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._report import Ratio
from benchmarks._timing import Around, Runner
from benchmarks.models import _compiled, _openvino, _zentorch
from benchmarks.models._columns import Column
from benchmarks.models._job import Job
from benchmarks.models._modes import Mode

NAMES = (
    "torch",
    "inductor",
    "torchscript",
    "cpuaccel",
    "cpuaccel+prepack",
    "cpuaccel+compile",
    "openvino",
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
    return (
        Column("torch", partial(_eager, within=mode.torch)),
        Column(
            "cpuaccel",
            partial(_eager, within=mode.plugin),
            plugin=True,
            missing=mode.plugin_missing,
        ),
        Column(
            "cpuaccel+prepack",
            partial(_prepacked, within=mode.plugin),
            plugin=True,
            missing=lambda: mode.plugin_missing() or _plugin.prepack_missing(),
        ),
        Column(
            "inductor",
            partial(_compiled.prepare, backend="inductor", within=mode.torch),
        ),
        Column(
            "torchscript",
            _compiled.script,
            missing=partial(_compiled.script_missing, mode),
        ),
        Column(
            "cpuaccel+compile",
            partial(_compiled.prepare, backend="cpuaccel", within=mode.plugin),
            plugin=True,
            missing=_compiled.backend_missing,
        ),
        Column(
            "openvino",
            partial(_openvino.prepare_float, precision=mode.peer),
            peer=True,
            missing=_openvino.float_missing,
            note=partial(_openvino.float_note, mode.peer),
        ),
        Column(
            "zentorch",
            partial(_zentorch.prepare, within=mode.torch),
            peer=True,
            in_torch=True,
            missing=_zentorch.missing,
            note=_zentorch.note,
        ),
    )


def _eager(job: Job, within: Around) -> Runner:
    return partial(_call, job.model, job.x, within)


def _prepacked(job: Job, within: Around) -> Runner:
    return partial(_call, _plugin.prepack(copy.deepcopy(job.model)), job.x, within)


def _call(model: nn.Module, x: Tensor, within: Around) -> object:
    with within():
        return model(x)
