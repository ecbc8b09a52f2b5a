"""ONNX Runtime: its own int8 of a model, as its documentation has it for x86 CPUs, or fp32."""

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
    """How its models are made."""
    weights = "7-bit weights (reduce_range: no VNNI here)" if _reduce_range() else "8-bit weights"
    return (
        f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export, "
        f"quantize_static to QDQ, u8 activations and s8 per-channel {weights}, "
        "min-max on the same images"
    )


def dynamic_note() -> str:
    """How its models of int8 linear layers are made."""
    return (
        f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export, "
        "quantize_dynamic, s8 weights by channels"
    )


def float_missing(precision: str) -> str:
    """Why floats cannot run here in `precision`, or ""."""
    if precision != "f32":
        return "ONNX Runtime has no bf16 kernels for this"
    return _peers.missing("onnxruntime", "onnx", "onnxscript")


def float_note() -> str:
    """How its models of floats are made."""
    return f"onnxruntime: {_peers.versions('onnxruntime', 'onnx')}; torch.onnx.export"


def prepare(job: Job) -> Runner:
    """`job` exported, quantized and loaded; the call takes and returns numpy arrays."""
    return _run(job, _static)


def prepare_dynamic(job: Job) -> Runner:
    """The same, with products that measure their sources as they run."""
    return _run(job, _dynamic)


def prepare_float(job: Job) -> Runner:
    """`job` exported and loaded."""
    return _run(job, _exported)


def _run(job: Job, make: Callable[[Job, Path], Path]) -> Runner:
    with _peers.preparing(), TemporaryDirectory() as folder:
        session = _session(make(job, Path(folder)))
    return partial(session.run, None, {_INPUT: job.x.numpy()})


def _exported(job: Job, folder: Path) -> Path:
    """The file of `job` as torch writes it."""
    program: Any = torch.onnx.export(
        job.model, (job.x,), dynamo=True, verbose=False, input_names=[_INPUT]
    )
    path = folder / "exported.onnx"
    program.save(str(path))
    return path


def _folded(job: Job, folder: Path) -> Path:
    """The file of `job` as the quantizers want it."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = folder / "folded.onnx"
    quant_pre_process(str(_exported(job, folder)), str(path))
    return path


def _static(job: Job, folder: Path) -> Path:
    """The file of the int8 model of `job`."""
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
    """The file of `job` with dynamic int8 products."""
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
    """The calibration images as quantize_static asks for them."""
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
    """Without VNNI its products of u8 and s8 are added up in 16 bits, which 7-bit weights fit."""
    features = _machine.features()
    return "avx2" in features and not {"avx_vnni", "avx512_vnni"} & set(features)
