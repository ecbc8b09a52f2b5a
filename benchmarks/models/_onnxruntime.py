"""ONNX Runtime as a peer: fp32, or its own int8 as its documentation recommends for x86 CPUs."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import _machine
from benchmarks._timing import Runner
from benchmarks.models import _peers
from benchmarks.models._job import Job

_INPUT = "image"
_WARNING_AND_ABOVE = 3


def missing() -> str:
    """Why it cannot run here, or ""."""
    return _peers.missing("onnxruntime", "onnx", "onnxscript")


def note() -> str:
    """How its int8 models are made."""
    weights = "7-bit weights (reduce_range: no VNNI here)" if _reduce_range() else "8-bit weights"
    return (
        f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export, "
        f"quantize_static to QDQ, u8 activations and s8 per-channel {weights}, "
        "min-max on the same images"
    )


def dynamic_note() -> str:
    """How its models with dynamic int8 linear layers are made."""
    return (
        f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export, "
        "quantize_dynamic, s8 weights by channels"
    )


def float_missing(precision: str) -> str:
    """Why float models cannot run here in `precision`, or ""."""
    if precision != "f32":
        return "ONNX Runtime has no bf16 kernels for this"
    return _peers.missing("onnxruntime", "onnx", "onnxscript")


def float_note() -> str:
    """How its float models are made."""
    return f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export"


def prepare(job: Job) -> Runner:
    """Exports, quantizes and loads `job`; the call takes and returns numpy arrays."""
    return _run(job, _static)


def prepare_dynamic(job: Job) -> Runner:
    """The same, with dynamically quantized products."""
    return _run(job, _dynamic)


def prepare_float(job: Job) -> Runner:
    """Exports and loads `job`."""
    return _run(job, _exported)


def _run(job: Job, make: Callable[[Job, Path], Path]) -> Runner:
    with _peers.preparing(), TemporaryDirectory() as folder:
        session = _session(make(job, Path(folder)))
    return partial(session.run, None, {_INPUT: job.x.numpy()})


def _exported(job: Job, folder: Path) -> Path:
    """Exports `job` with torch and returns the file."""
    program: Any = torch.onnx.export(
        job.model, (job.x,), dynamo=True, verbose=False, input_names=[_INPUT]
    )
    path = folder / "exported.onnx"
    program.save(str(path))
    return path


def _folded(job: Job, folder: Path) -> Path:
    """The file of `job` preprocessed for the quantizers."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = folder / "folded.onnx"
    quant_pre_process(str(_exported(job, folder)), str(path))
    return path


def _static(job: Job, folder: Path) -> Path:
    """Quantizes `job` to int8 and returns the file."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    path = folder / "quantized.onnx"
    quantize_static(
        str(_folded(job, folder)),
        str(path),
        _reader(job),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=_reduce_range(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return path


def _dynamic(job: Job, folder: Path) -> Path:
    """Quantizes the products of `job` dynamically to int8 and returns the file."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = folder / "quantized.onnx"
    quantize_dynamic(
        str(_folded(job, folder)),
        str(path),
        per_channel=True,
        reduce_range=_reduce_range(),
        weight_type=QuantType.QInt8,
    )
    return path


def _reader(job: Job) -> Any:
    """The calibration images in the form that quantize_static takes."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches: Iterator[Any] = iter(_peers.calibration_batches(job))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {_INPUT: batch}

    return Reader()


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = _WARNING_AND_ABOVE
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _reduce_range() -> bool:
    """Whether to use 7-bit weights: without VNNI, u8 x s8 products are summed in 16 bits."""
    features = _machine.features()
    return "avx2" in features and not {"avx_vnni", "avx512_vnni"} & set(features)
