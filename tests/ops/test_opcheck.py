"""torch.library.opcheck on each cpuaccel op, with the checks that torch can make of its arguments.

Ops on quint8 tensors skip `test_aot_dispatch_dynamic`, which needs meta tensors: torch has no
quantized ones ("quantized nyi in meta tensors"). Ops that take torch's packed weights also skip
`test_schema`, which compares arguments before and after: torch's class of packed weights cannot be
compared ("'__len__' is not implemented").
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch
from quant._engine import needs_front_end, needs_plugin, running
from torch import Tensor

from cpuaccel import _native
from cpuaccel.quant._front_end import has_front_end

pytestmark = needs_plugin


def has_onednn() -> bool:
    """Whether the module was built with oneDNN."""
    return hasattr(_native.load(), "find_partitions")


_CHECKS = ("test_autograd_registration", "test_faketensor")
_MODULES_OF_LINEAR = (
    *("kept_linear", "int8_linear", "packed_int8_linear", "intx_linear", "packed_intx_linear"),
)
_PACKING = ("pack_int8", "unpack_int8", "pack_intx", "unpack_intx")
_PLAIN = (*_MODULES_OF_LINEAR, *_PACKING, "intx_embedding")
_OF_TENSORS_ALONE = ("quantized_table", "shuffle_channels", *_PLAIN)
_QUANTIZER = (0.05, 120)
_TABLE = torch.arange(255, -1, -1, dtype=torch.int16).to(torch.uint8)


def _quint8(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.quantize_per_tensor(torch.randn(shape), *_QUANTIZER, torch.quint8)


def _conv() -> Any:
    weight = torch.quantize_per_tensor(torch.randn(6, 4, 3, 3), 0.02, 0, torch.qint8)
    prepack = torch.ops.quantized.conv2d_prepack
    return prepack(weight, torch.randn(6), [1, 1], [1, 1], [1, 1], 1)


def _linear() -> Any:
    weight = torch.quantize_per_tensor(torch.randn(6, 16), 0.02, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, torch.randn(6))


def _plain_arguments() -> dict[str, tuple[Any, ...]]:
    return {
        "kept_linear": (torch.randn(3, 16), torch.randn(24, 16), torch.randn(24), "gelu"),
        "int8_linear": (
            *(torch.randn(3, 16), torch.randint(-128, 128, (24, 16), dtype=torch.int8)),
            *(torch.rand(24, 1), None, torch.randn(24), "row", False, None, None, -128, 127),
        ),
        "packed_int8_linear": (
            *(torch.randn(3, 16), _packed_int8(), torch.rand(24, 1), torch.randn(24), 24),
            *("row", True, None, None, -127, 127),
        ),
        "pack_int8": (torch.randint(-128, 128, (24, 16), dtype=torch.int8),),
        "unpack_int8": (_packed_int8(), 24, 16),
        "intx_linear": (
            *(torch.randn(3, 16), torch.randint(-8, 8, (24, 16), dtype=torch.int8)),
            *(torch.rand(24, 2), torch.zeros(24, 2, dtype=torch.int8), torch.randn(24), 4, True),
        ),
        "intx_embedding": (
            *_intx_codes()[:3],
            *(torch.randint(24, (3, 2)), torch.bfloat16),
        ),
        "packed_intx_linear": (torch.randn(3, 16), _packed_intx(), torch.randn(24), 24, False),
        "pack_intx": _intx_codes(),
        "unpack_intx": (_packed_intx(), 24, 16),
    }


def _intx_codes() -> tuple[Any, ...]:
    torch.manual_seed(0)
    codes = torch.randint(-8, 8, (24, 16), dtype=torch.int8)
    return codes, torch.rand(24, 2), torch.ones(24, 2, dtype=torch.int8), 4


def _packed_int8() -> Tensor:
    return torch.ops.cpuaccel.pack_int8(torch.randint(-128, 128, (24, 16), dtype=torch.int8))


def _packed_intx() -> Tensor:
    return torch.ops.cpuaccel.pack_intx(*_intx_codes())


def _quantized_arguments() -> dict[str, tuple[Any, ...]]:
    image, rows = _quint8(1, 4, 5, 5), _quint8(3, 16)
    own = (*_QUANTIZER, False)
    image_binary = (None, 1.0, 0, _quint8(1, 6, 5, 5), *_QUANTIZER, False)
    row_binary = (None, 1.0, 0, _quint8(3, 6), *_QUANTIZER, False)
    return {
        "quantized_table": (image, _TABLE, *_QUANTIZER),
        "shuffle_channels": ([image, image], 2, 1, 0, None, *_QUANTIZER),
        "conv2d_table": (image, _conv(), *own, _TABLE, *_QUANTIZER),
        "conv2d_add": (image, _conv(), *own, *image_binary),
        "conv2d_mul": (image, _conv(), *own, *image_binary),
        "linear_table": (rows, _linear(), *own, _TABLE, *_QUANTIZER),
        "linear_add": (rows, _linear(), *own, *row_binary),
        "linear_mul": (rows, _linear(), *own, *row_binary),
    }


def _load() -> None:
    """Register all ops and fake kernels, which are otherwise registered by their users."""
    _native.load()
    for name in ("resize", "saved_linear", "intx_embedding", *_MODULES_OF_LINEAR):
        importlib.import_module(f"cpuaccel._ops.{name}")
    importlib.import_module("cpuaccel.compile.capture.cross_attention")  # and cached_attention


def _ops_on_tensors() -> set[str]:
    """Names of cpuaccel ops that take and return tensors; the describe_ ops return text."""
    _load()
    schemas = torch._C._jit_get_all_schemas()
    return {
        schema.name.removeprefix("cpuaccel::")
        for schema in schemas
        if schema.name.startswith("cpuaccel::")
        and any("Tensor" in str(each.type) for each in schema.returns)
    }


_OF_PREPACK = {
    "pack_linear",
    "unpack_linear",
    "packed_linear",
    "packed_lstm",
    "packed_convolution",
    *("weight_to_bytes", "weight_from_bytes", "saved_linear"),
}
"""All checks of these are in tests/prepack."""
_OF_GRAPHS = {
    "neighbor_sample",
    *("sort_edges", "kept_edges", "kept_weight", "kept_gcn_weight", "kept_relations"),
    *("edge_stats", "edge_stats_backward"),
    *("edge_sum", "edge_dot", "edge_extreme", "edge_extreme_backward"),
    *("edge_sum_heads", "edge_sum_heads_backward", "edge_dot_heads"),
    *("edge_softmax", "edge_softmax_backward"),
    *("gat_alpha", "gat_alpha_backward", "gatv2_scores", "gatv2_scores_backward"),
    *("index_sum", "edge_values", "gcn_sum", "gat_sum", "gat_sum_backward"),
    *("gatv2_sum", "gatv2_sum_backward"),
}
"""Checked in tests/gnn, except the kept_ ones: only eager code calls them, for cached results."""
_REGIONS = ("graph_region", "graph_region_", "graph_region_by_torch")
_OF_REGIONS = set(_REGIONS) if has_onednn() else set()
_OF_COMPILED = {
    *("cached_attention", "attend_and_keep_", "cross_attention", "resize"),
    *("layer_input", "layer_output", "repeated_layer"),
    *_OF_REGIONS,
}
"""Checked in tests/compile: attentions run in calls of their model only, and cached_attention calls
attend_and_keep_; traces have layers; Dynamo's graphs have resize, and graph_region_by_torch runs
torch's ops."""
_WITHOUT_FRONT_END = _PLAIN
"""Ops that a build without the front end for quantized tensors has, too."""
_NAMES = (
    *_OF_TENSORS_ALONE,
    *(f"{layer}_{then}" for layer in ("conv2d", "linear") for then in ("table", "add", "mul")),
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _WITHOUT_FRONT_END else needs_front_end)
        for name in _NAMES
    ],
)
def test_opcheck(name: str) -> None:
    _load()
    op = getattr(torch.ops.cpuaccel, name).default
    plain = name in _WITHOUT_FRONT_END
    arguments = (_plain_arguments() if plain else _quantized_arguments())[name]
    with running("auto"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = ("test_schema", *_CHECKS) if name in _OF_TENSORS_ALONE else _CHECKS
        for check in checks:
            result = torch.library.opcheck(op, arguments, test_utils=check)
            assert set(result.values()) == {"SUCCESS"}


def test_no_op_is_left_out() -> None:
    names = set(_NAMES if has_front_end() else _WITHOUT_FRONT_END)
    assert _ops_on_tensors() == names | _OF_PREPACK | _OF_GRAPHS | _OF_COMPILED
