"""OpenVINO's compressed weights as a peer: a product by weights of 4 or 8 bits with scales."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._timing import Runner


def missing() -> str:
    """Why it cannot run here, or ""."""
    return "" if importlib.util.find_spec("openvino") else "openvino is not installed"


def note() -> str:
    """Which version it is, and how it computes."""
    from importlib.metadata import version

    return (
        f"openvino: {version('openvino')}; weights as NNCF compresses them, scales of f16, hint "
        "LATENCY; openvino_a8 rounds rows to 8 bits in groups of 32 where the CPU has it"
    )


def product(codes: Tensor, scale: Tensor, x: Tensor, bits: int, int8_rows: bool) -> Runner:
    """Return a function that multiplies the rows of `x` by codes * scale, groups along k.

    Args:
        codes: int8, (out, in).
        scale: (out, groups).
        x: float32, (rows, in).
        bits: 4 or 8.
        int8_rows: Let OpenVINO round the rows to 8 bits.
    """
    import openvino
    from openvino import opset13 as ops

    (N, K), groups = codes.shape, scale.shape[1]
    source = ops.parameter(list(x.shape), np.float32, name="x")
    grouped = [N, groups, K // groups] if groups > 1 else [N, K]
    kind = openvino.Type.i4 if bits == 4 else openvino.Type.i8
    weights = openvino.Tensor(kind, openvino.Shape(grouped))
    numbers = codes.reshape(-1).numpy()
    if bits == 4:
        numbers = ((numbers[0::2] & 0xF) | (numbers[1::2] << 4)).astype(np.int8)
    weights.data[:] = numbers.view(weights.data.dtype).reshape(weights.data.shape)
    floats = ops.convert(ops.constant(weights), np.float16)
    of_groups = scale.half().reshape([N, groups, 1] if groups > 1 else [N, 1]).numpy()
    scaled = ops.multiply(floats, ops.constant(of_groups))
    flat = ops.reshape(scaled, np.array([N, K]), False) if groups > 1 else scaled
    result = ops.matmul(source, ops.convert(flat, np.float32), False, True)
    settings: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32 if int8_rows else 0,
    }
    model = openvino.Model([result], [source])
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    tensor = openvino.Tensor(x.numpy(), shared_memory=True)
    return partial(request.infer, tensor, share_inputs=True, share_outputs=True)
