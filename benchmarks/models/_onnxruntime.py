"""ONNX Runtime's own int8 of a model, as its documentation has it for x86 CPUs."""

from collections.abc import Iterator
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


def prepare(job: Job) -> Runner:
    """`job` exported, quantized and loaded; the call takes and returns numpy arrays."""
    with _peers.preparing(), TemporaryDirectory() as folder:
        session = _session(_quantized(job, Path(folder)))
    return partial(session.run, None, {_INPUT: job.x.numpy()})


def _quantized(job: Job, folder: Path) -> Path:
    """The file of the int8 model of `job`."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    paths = [folder / f"{step}.onnx" for step in ("exported", "folded", "quantized")]
    exported, folded, quantized = (str(path) for path in paths)
    program: Any = torch.onnx.export(
        job.model, (job.x,), dynamo=True, verbose=False, input_names=[_INPUT]
    )
    program.save(exported)
    quant_pre_process(exported, folded)
    quantize_static(
        folded,
        quantized,
        _reader(job),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=_reduce_range(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return paths[-1]


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
