"""llama.cpp's matrix products (ggml) as a peer, by the C functions that xllamacpp's module exports.

Q4_0 lies in the buffer that ggml repacks for its fastest kernels, if the CPU has one.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benchmarks._timing import Runner

_TYPES = {4: 2, 8: 8}
"""ggml's numbers of Q4_0 and Q8_0, by bits."""
_F32 = 0
_TENSOR_BYTES = 4096
"""More than ggml needs for a tensor or a graph of one node, without their data."""
_GRAPH_BYTES = 1 << 20


class _Params(ctypes.Structure):
    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


def missing() -> str:
    """Why it cannot run here, or ""."""
    return "" if importlib.util.find_spec("xllamacpp") else "xllamacpp is not installed"


def note() -> str:
    """Which version and formats it has."""
    from importlib.metadata import version

    return (
        f"llama.cpp: xllamacpp {version('xllamacpp')}; Q4_0 and Q8_0 (groups of 32), which round "
        "rows to 8 bits"
    )


def product(weight: Tensor, x: Tensor, bits: int) -> Runner:
    """Return a function that multiplies the rows of `x` by `weight` (out x in) as Q4_0 or Q8_0."""
    library = _library()
    (N, K), M = weight.shape, x.shape[0]
    context = library.ggml_init(_Params(8 * _TENSOR_BYTES + _GRAPH_BYTES, None, True))
    of_weights = library.ggml_init(_Params(2 * _TENSOR_BYTES, None, True))
    weights = library.ggml_new_tensor_2d(of_weights, _TYPES[bits], K, N)
    src = library.ggml_new_tensor_2d(context, _F32, K, M)
    result = library.ggml_mul_mat(context, weights, src)
    graph = library.ggml_new_graph(context)
    library.ggml_build_forward_expand(graph, result)
    library.ggml_backend_alloc_ctx_tensors_from_buft(of_weights, _buffer_type(bits))
    backend = _backend()
    library.ggml_backend_alloc_ctx_tensors(context, backend)
    size = library.ggml_nbytes(weights)
    quantized = ctypes.create_string_buffer(size)
    floats = weight.float().contiguous()
    library.ggml_quantize_chunk(_TYPES[bits], floats.data_ptr(), quantized, 0, N, K, None)
    library.ggml_backend_tensor_set(weights, quantized, 0, size)
    rows = x.float().contiguous()
    library.ggml_backend_tensor_set(src, rows.data_ptr(), 0, rows.nbytes)

    def run() -> None:
        library.ggml_backend_cpu_set_n_threads(backend, torch.get_num_threads())
        library.ggml_backend_graph_compute(backend, graph)

    return run


@cache
def _library() -> Any:
    spec = importlib.util.find_spec("xllamacpp.xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    library = ctypes.CDLL(spec.origin)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    functions: dict[str, tuple[Any, list[Any]]] = {
        "ggml_init": (pointer, [_Params]),
        "ggml_new_tensor_2d": (
            pointer,
            [pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64],
        ),
        "ggml_mul_mat": (pointer, [pointer, pointer, pointer]),
        "ggml_new_graph": (pointer, [pointer]),
        "ggml_build_forward_expand": (None, [pointer, pointer]),
        "ggml_nbytes": (size, [pointer]),
        "ggml_quantize_chunk": (
            size,
            [ctypes.c_int, pointer, pointer, *(3 * [ctypes.c_int64]), pointer],
        ),
        "ggml_backend_cpu_init": (pointer, []),
        "ggml_backend_cpu_buffer_type": (pointer, []),
        "ggml_backend_cpu_set_n_threads": (None, [pointer, ctypes.c_int]),
        "ggml_backend_alloc_ctx_tensors": (pointer, [pointer, pointer]),
        "ggml_backend_alloc_ctx_tensors_from_buft": (pointer, [pointer, pointer]),
        "ggml_backend_tensor_set": (None, [pointer, pointer, size, size]),
        "ggml_backend_graph_compute": (ctypes.c_int, [pointer, pointer]),
        "ggml_backend_get_device": (pointer, [pointer]),
        "ggml_backend_dev_backend_reg": (pointer, [pointer]),
        "ggml_backend_reg_get_proc_address": (pointer, [pointer, ctypes.c_char_p]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@cache
def _backend() -> Any:
    return _library().ggml_backend_cpu_init()


@cache
def _buffer_type(bits: int) -> Any:
    """Return the buffer type that repacks Q4_0, or the plain one, which Q8_0 has on x86."""
    library = _library()
    if bits != 4:
        return library.ggml_backend_cpu_buffer_type()
    device = library.ggml_backend_get_device(_backend())
    register = library.ggml_backend_dev_backend_reg(device)
    address = library.ggml_backend_reg_get_proc_address(
        register, b"ggml_backend_dev_get_extra_bufts"
    )
    if address:
        kinds = ctypes.POINTER(ctypes.c_void_p)
        extra = ctypes.CFUNCTYPE(kinds, ctypes.c_void_p)(address)(device)
        if extra and extra[0]:
            return extra[0]
    return library.ggml_backend_cpu_buffer_type()
