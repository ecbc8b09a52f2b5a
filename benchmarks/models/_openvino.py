"""OpenVINO: its own int8 of a model, by NNCF, or its floats."""

from functools import partial
from typing import Any

import torch

from benchmarks._timing import Runner
from benchmarks.models import _peers
from benchmarks.models._job import Job

_OWN = "hint LATENCY, what stays in floats in its default precision (bf16 where the CPU has it)"


def missing() -> str:
    """Why it cannot run here, or ""."""
    return _peers.missing("openvino", "nncf")


def note() -> str:
    """How its models are made."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; nncf.quantize with its defaults on the "
        f"same images; {_OWN}"
    )


def encoder_note() -> str:
    """How its transformers are made."""
    return note().replace("its defaults", "model type TRANSFORMER")


def weights_note() -> str:
    """How its models of int8 weights are made."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; nncf.compress_weights to INT8_SYM, "
        f"activations quantized as it runs where it does so; {_OWN}"
    )


def prepare(job: Job, transformer: bool = False) -> Runner:
    """`job` converted, quantized and compiled."""
    with _peers.preparing():
        request = _compile(_quantized(job, transformer)).create_infer_request()
    return _runner(request, job)


def prepare_weights(job: Job) -> Runner:
    """`job` converted, its weights alone quantized, and compiled."""
    import nncf

    with _peers.preparing():
        model = nncf.compress_weights(_converted(job), mode=nncf.CompressWeightsMode.INT8_SYM)
        request = _compile(model).create_infer_request()
    return _runner(request, job)


def float_missing() -> str:
    """Why floats cannot run here, or ""."""
    return _peers.missing("openvino")


def float_note(precision: str) -> str:
    """How its models of floats are made."""
    return f"openvino: {_peers.versions('openvino')}; hint LATENCY, precision {precision}"


def prepare_float(job: Job, precision: str) -> Runner:
    """`job` converted and compiled to run in `precision`, where the CPU has it; else in f32."""
    with _peers.preparing():
        request = _compile(_converted(job), precision).create_infer_request()
    return _runner(request, job)


def _runner(request: Any, job: Job) -> Runner:
    """Input and output are shared with the request, not copied."""
    import openvino

    x = openvino.Tensor(job.x.numpy(), shared_memory=True)
    return partial(request.infer, x, share_inputs=True, share_outputs=True)


def _quantized(job: Job, transformer: bool) -> Any:
    import nncf

    batches = _peers.calibration_batches(job)
    return nncf.quantize(
        _converted(job),
        nncf.Dataset(batches),
        subset_size=len(batches),
        model_type=nncf.ModelType.TRANSFORMER if transformer else None,
    )


def _converted(job: Job) -> Any:
    import openvino

    model = openvino.convert_model(job.model, example_input=job.x)
    model.reshape(list(job.x.shape))
    return model


def _compile(model: Any, precision: str = "") -> Any:
    """`model` for the CPU; floats in `precision`, or in OpenVINO's own choice, bf16 if it can."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        **({"INFERENCE_PRECISION_HINT": precision} if precision else {}),
    }
    return openvino.Core().compile_model(model, "CPU", settings)
