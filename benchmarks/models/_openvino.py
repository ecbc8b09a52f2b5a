"""OpenVINO's own int8 of a model: NNCF's post-training quantization with its defaults."""

from functools import partial
from typing import Any

import torch

from benchmarks._timing import Runner
from benchmarks.models import _peers
from benchmarks.models._job import Job


def missing() -> str:
    """Why it cannot run here, or ""."""
    return _peers.missing("openvino", "nncf")


def note() -> str:
    """How its models are made."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; nncf.quantize with its defaults on the "
        "same images; hint LATENCY, precision f32"
    )


def prepare(job: Job) -> Runner:
    """`job` converted, quantized and compiled; input and output are shared, not copied."""
    with _peers.preparing():
        import openvino

        request = _compiled(job).create_infer_request()
        x = openvino.Tensor(job.x.numpy(), shared_memory=True)
    return partial(request.infer, x, share_inputs=True, share_outputs=True)


def _compiled(job: Job) -> Any:
    import nncf
    import openvino

    model = openvino.convert_model(job.model, example_input=job.x)
    model.reshape(list(job.x.shape))
    batches = _peers.calibration_batches(job)
    quantized = nncf.quantize(model, nncf.Dataset(batches), subset_size=len(batches))
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    return openvino.Core().compile_model(quantized, "CPU", settings)
