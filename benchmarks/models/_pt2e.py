"""PT2E's models, made by torchao for Inductor on x86: compiled by Inductor, or by our backend."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks import _plugin
from benchmarks._timing import Runner
from benchmarks.models import _compiled, _peers
from benchmarks.models._job import Job


def missing() -> str:
    """Why there are no such models here, or ""."""
    return _peers.missing("torchao")


def note() -> str:
    """How these models are made."""
    made_by = f"pt2e: {_peers.versions('torchao')}, X86InductorQuantizer (ours: X86Quantizer)"
    return f"{made_by}, static, weights by channels; ours with floats in fast math"


def dynamic_note() -> str:
    """How models are made whose layers measure their sources as they run."""
    return note().replace("static", "dynamic")


def with_inductor(job: Job, dynamic: bool = False) -> Runner:
    """`job` quantized and compiled by Inductor, which has int8 layers where weights are frozen."""
    from torch._inductor import config

    with config.patch(freezing=True):
        return with_backend(job, "inductor", dynamic)


def with_backend(job: Job, backend: str = "cpuaccel", dynamic: bool = False) -> Runner:
    """`job` quantized and compiled by our backend, or another."""
    ours = backend == "cpuaccel"
    within = _in_bf16 if ours else torch.no_grad
    return _compiled.run_of(_converted(job, dynamic, ours), job.x, backend, within)


def optimized(job: Job) -> Runner:
    """`job` quantized, as `cpuaccel.optimize` has it."""
    return _compiled.optimized(_converted(job, dynamic=False, ours=True), job.x, _in_bf16)


@contextmanager
def _in_bf16() -> Iterator[None]:
    """What stays in floats multiplies in bf16, as it does in OpenVINO where the CPU has that."""
    with torch.no_grad(), _plugin.fastmath():
        yield


def _converted(job: Job, dynamic: bool, ours: bool) -> Any:
    """`job` quantized, what torchao's quantizer leaves in attention as well if it is for `ours`."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    # Tracing takes no inference mode.
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(job.model, (job.x,), strict=True).module()
        quantizer = _quantizer() if ours else x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
        prepared = prepare_pt2e(exported, quantizer)
        for batch in job.calibration:
            for image in batch.split(len(job.x)):
                if len(image) == len(job.x):
                    prepared(image)
        return convert_pt2e(prepared)


def _quantizer() -> Any:
    from cpuaccel.quant.pt2e import X86Quantizer

    return X86Quantizer()
