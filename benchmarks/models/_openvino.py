"""OpenVINO as a peer: fp32, or its own int8, made by NNCF."""

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
    """How its int8 models are made."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; nncf.quantize with its defaults on the "
        f"same images; {_OWN}"
    )


def encoder_note() -> str:
    """How its int8 transformers are made."""
    return note().replace("its defaults", "model type TRANSFORMER")


def weights_note() -> str:
    """How its models with int8 weights are made."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; nncf.compress_weights to INT8_SYM, "
        f"activations quantized as it runs where it does so; {_OWN}"
    )


def prepare(job: Job, transformer: bool = False) -> Runner:
    """Converts, quantizes and compiles `job`."""
    with _peers.preparing():
        request = _compile(_quantized(job, transformer)).create_infer_request()
    return _runner(request, job)


def prepare_weights(job: Job) -> Runner:
    """Converts `job`, quantizes only its weights, and compiles it."""
    import nncf

    with _peers.preparing():
        model = nncf.compress_weights(_converted(job), mode=nncf.CompressWeightsMode.INT8_SYM)
        request = _compile(model).create_infer_request()
    return _runner(request, job)


def float_missing() -> str:
    """Why float models cannot run here, or ""."""
    return _peers.missing("openvino")


def float_note(precision: str) -> str:
    """How its float models are made."""
    return f"openvino: {_peers.versions('openvino')}; hint LATENCY, precision {precision}"


def prepare_float(job: Job, precision: str) -> Runner:
    """Converts and compiles `job` to run in `precision`, or in f32 if the CPU lacks it."""
    with _peers.preparing():
        request = _compile(_converted(job), precision).create_infer_request()
    return _runner(request, job)


def _runner(request: Any, job: Job) -> Runner:
    """Runs a request that shares memory with its input and output instead of copying them."""
    import openvino

    inputs = [openvino.Tensor(each.numpy(), shared_memory=True) for each in job.inputs]
    return partial(request.infer, inputs, share_inputs=True, share_outputs=True)


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

    example = job.inputs if len(job.inputs) > 1 else job.x
    model = openvino.convert_model(job.model, example_input=example)
    model.reshape({number: list(each.shape) for number, each in enumerate(job.inputs)})
    return model


def _compile(model: Any, precision: str = "") -> Any:
    """Compiles `model` for the CPU; OpenVINO chooses an empty `precision` (bf16 if it can)."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        **({"INFERENCE_PRECISION_HINT": precision} if precision else {}),
    }
    return openvino.Core().compile_model(model, "CPU", settings)
