"""The columns of the comparison: every way of running a case, by cpuaccel and by peers."""

from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch

from benchmarks import _plugin
from benchmarks._quantize import convert
from benchmarks._timing import Runner
from benchmarks.models import (
    _columns,
    _compiled,
    _float_columns,
    _onnxruntime,
    _openvino,
    _pictures,
    _pt2e,
)
from benchmarks.models._columns import Column
from benchmarks.models._job import Job
from benchmarks.models._modes import mode
from benchmarks.models.comparison.cases import CNN, DECODER, FP32, INT8, PICTURE, Case

PEERS = MappingProxyType(
    {
        "torch": "torch",
        "x86": "torch",
        "inductor+freezing": "inductor",
        "pt2e+inductor": "inductor",
        "zentorch": "zentorch",
        "onnxruntime": "onnxruntime",
        "openvino": "openvino",
    }
)
"""The peer that each foreign column is compared as; in int8, torch is its x86 engine, eager."""

NAMES = tuple(dict.fromkeys(PEERS.values()))
"""The peers, in the order of the table."""

_FLOATS = ("torch", "inductor+freezing", "cpuaccel+compile", "cpuaccel+optimize")
_PICTURE_PEERS = ("openvino",)
_FLOAT_PEERS = ("onnxruntime", "openvino", "zentorch")
_STATIC = ("x86", "cpuaccel+compile", "cpuaccel+optimize", "pt2e+inductor", "onnxruntime")


def columns(case: Case) -> list[Column]:
    """All columns of `case`; those with their own threads come after those with torch's."""
    if case.type != INT8:
        is_picture = case.kind == PICTURE
        names: tuple[str, ...] = (*_FLOATS, *(_PICTURE_PEERS if is_picture else _FLOAT_PEERS))
        known = _float_columns.columns(mode("fp32" if case.type == FP32 else "bfloat16"))
        if is_picture:
            known = tuple(map(_fused, known))
    elif case.kind == CNN:
        names = (*_STATIC, "openvino")
        known = _columns.COLUMNS
    else:
        known = _dynamic(case.kind == DECODER)
        names = tuple(each.name for each in known)
    by_name = {each.name: each for each in known}
    return [by_name[name] for name in names]


def _fused(column: Column) -> Column:
    """`column`, if it compiles, for pictures: projections are fused as Diffusion Fast does it."""
    if column.name not in ("inductor+freezing", "cpuaccel+compile"):
        return column
    prepare = column.prepare

    def compiled(job: Job) -> Runner:
        return prepare(Job(_pictures.fused(job.model), [], *job.inputs))

    return replace(column, prepare=compiled)


def _dynamic(decoder: bool) -> tuple[Column, ...]:
    """int8 columns of models made of linear layers, with dynamic or static quantization."""
    return (
        Column("x86", partial(_eager, plugin=False)),
        _cpuaccel("cpuaccel", partial(_eager, plugin=True)),
        _cpuaccel("cpuaccel+compile", _compile),
        _cpuaccel("cpuaccel+optimize", _optimize),
        *(() if decoder else (_cpuaccel("pt2e+optimize", _pt2e.optimized, _pt2e.missing()),)),
        _cpuaccel("pt2e+compile", partial(_pt2e.with_backend, dynamic=decoder), _pt2e.missing()),
        Column(
            "pt2e+inductor",
            partial(_pt2e.with_inductor, dynamic=decoder),
            in_torch=True,
            missing=_pt2e.missing,
            note=_pt2e.dynamic_note if decoder else _pt2e.note,
        ),
        Column(
            "onnxruntime",
            _onnxruntime.prepare_dynamic,
            peer=True,
            missing=_onnxruntime.missing,
            note=_onnxruntime.dynamic_note,
        ),
        Column(
            "openvino",
            _openvino.prepare_weights if decoder else partial(_openvino.prepare, transformer=True),
            peer=True,
            missing=_openvino.missing,
            note=_openvino.weights_note if decoder else _openvino.encoder_note,
        ),
    )


def _cpuaccel(name: str, prepare: _columns.Prepare, missing: str = "") -> Column:
    return Column(
        name, prepare, plugin=True, missing=lambda: missing or _plugin.missing(), in_torch=True
    )


def _eager(job: Job, plugin: bool) -> Runner:
    return partial(convert(job.dynamic, "x86", plugin=plugin), job.x)


def _compile(job: Job) -> Runner:
    converted = convert(job.dynamic, "x86", plugin=True)
    return _compiled.run_of(converted, job.inputs, "cpuaccel", torch.no_grad)


def _optimize(job: Job) -> Runner:
    return _compiled.optimized(convert(job.dynamic, "x86", plugin=True), job.inputs, torch.no_grad)
