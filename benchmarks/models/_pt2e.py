"""PT2E int8 models, made by torchao's x86 Inductor quantizer, compiled by Inductor or cpuaccel."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks import _plugin, _torchvision
from benchmarks._timing import Contender, Runner
from benchmarks.models import _compiled, _peers
from benchmarks.models._job import Job

_CALIBRATION_SEEDS = (101, 102)
PEER_CONTENDERS = ("torch",)


def missing() -> str:
    """Why PT2E models cannot be made here, or ""."""
    return _peers.missing("torchao")


def note() -> str:
    """How PT2E models are made."""
    quantizers = "X86InductorQuantizer (on cpuaccel: X86Quantizer)"
    made_by = f"pt2e: {_peers.versions('torchao')}, {quantizers}"
    return f"{made_by}, static, weights by channels; on cpuaccel with floats in fast math"


def dynamic_note() -> str:
    """How PT2E models with dynamically quantized layers are made."""
    return note().replace("static", "dynamic")


def job(name: str) -> Job:
    """A torchvision model with one image, calibrated with two others."""
    calibration = [_torchvision.images(name, 1, seed=seed) for seed in _CALIBRATION_SEEDS]
    return Job(_torchvision.build(name), calibration, _torchvision.images(name, 1))


def peer_contenders(question: dict[str, str]) -> dict[str, Contender]:
    """What plain torch runs (_torch_peer.py): Inductor's form of `model`, a torchvision model."""
    return {"torch": Contender(with_inductor(job(question["model"])))}


def eager(job: Job, for_cpuaccel: bool = False) -> Runner:
    """Quantizes `job`; calls run in eager mode, on cpuaccel by a plan."""
    model = converted(job, False, for_cpuaccel)

    def run() -> object:
        with torch.no_grad():
            return model(job.x)

    run()
    return run


def with_inductor(job: Job, dynamic: bool = False) -> Runner:
    """Quantizes `job` and compiles it with Inductor, which needs frozen weights for int8 layers."""
    from torch._inductor import config

    with config.patch(freezing=True):
        return with_backend(job, "inductor", dynamic)


def with_backend(job: Job, backend: str = "cpuaccel", dynamic: bool = False) -> Runner:
    """Quantizes `job` and compiles it with cpuaccel's backend, or another one."""
    for_cpuaccel = backend == "cpuaccel"
    within = _in_bf16 if for_cpuaccel else torch.no_grad
    return _compiled.run_of(converted(job, dynamic, for_cpuaccel), job.inputs, backend, within)


def optimized(job: Job) -> Runner:
    """Quantizes `job` and applies `cpuaccel.optimize`."""
    return _compiled.optimized(
        converted(job, dynamic=False, for_cpuaccel=True), job.inputs, _in_bf16
    )


@contextmanager
def _in_bf16() -> Iterator[None]:
    """Runs the remaining float products in bf16, as OpenVINO does if the CPU supports it."""
    with torch.no_grad(), _plugin.fastmath():
        yield


def converted(job: Job, dynamic: bool, for_cpuaccel: bool) -> Any:
    """Quantizes `job`; with `for_cpuaccel` also the attention that torchao's quantizer skips."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    # Tracing does not work in inference mode.
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(job.model, (job.x,), strict=True).module()
        quantizer = _quantizer() if for_cpuaccel else x86.X86InductorQuantizer()
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
