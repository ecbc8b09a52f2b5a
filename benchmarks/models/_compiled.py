"""Compiled models: Inductor, cpuaccel's backend, and TorchScript with oneDNN Graph."""

from typing import Any

import torch

from benchmarks import _plugin
from benchmarks._timing import Around, Runner
from benchmarks.models._job import Job
from benchmarks.models._modes import Mode

Inputs = tuple[torch.Tensor, ...]


def prepare(job: Job, backend: str, within: Around) -> Runner:
    """Compiles `job` for its own sizes; the first calls, which compile, are made here."""
    return run_of(job.model, job.inputs, backend, within)


def run_of(model: Any, inputs: Inputs, backend: str, within: Around) -> Runner:
    """Compiles `model` for the sizes of `inputs`."""
    compiled: Any = torch.compile(model, backend=backend, dynamic=False)

    def run() -> object:
        with within():
            return compiled(*inputs)

    run()
    return run


def optimized(model: Any, inputs: Inputs, within: Around) -> Runner:
    """Runs `cpuaccel.optimize` on `model`, without tuning by time."""

    with within():
        optimized = _plugin.optimize(model, inputs)

    def run() -> object:
        with within():
            return optimized(*inputs)

    return run


def frozen(job: Job, within: Around) -> Runner:
    """Compiles `job` with Inductor and frozen weights, in oneDNN's packed layout."""
    from torch._inductor import config

    with config.patch(freezing=True):
        return prepare(job, "inductor", within)


def backend_missing() -> str:
    """Why cpuaccel's backend cannot run here, or ""."""
    if _plugin.missing():
        return _plugin.missing()
    backends = torch._dynamo.list_backends(exclude_tags=())
    return "" if "cpuaccel" in backends else "cpuaccel has no backend for torch.compile"


def script_missing(mode: Mode) -> str:
    """Why TorchScript with oneDNN Graph cannot run here, or ""."""
    return "" if mode.name == "fp32" else "TorchScript is compared in fp32"


def script(job: Job) -> Runner:
    """Traces and freezes `job`; torch's JIT fuser makes its oneDNN Graph partitions."""
    before = torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(True)
    try:
        traced = torch.jit.freeze(torch.jit.trace(job.model, job.x, strict=False))
        # The first call profiles, the second makes partitions.
        for _ in range(3):
            traced(job.x)
    finally:
        torch.jit.enable_onednn_fusion(before)

    def run() -> object:
        return traced(job.x)

    return run
