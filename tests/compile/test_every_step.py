"""Each kind of step has tests: of a plan that contains it, and of each of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile import _blocks, _functions
from compile._compiled import needs_onednn
from compile._patterns import Nothing
from cpuaccel import _native

pytestmark = needs_onednn

# The kernel families that run each kind of step. `tests/cpp/test_<family>.cpp` checks every row of
# a family against its formula in float64 or in exact integers, on each ISA.
KERNELS = {
    "attention": ("attention",),
    "cached_attention": ("attention",),
    "cross_attention": ("attention",),
    "dequantize": ("dequantize",),
    "gated_product": ("gated_product", "eltwise_f32"),
    "int8_linear": ("quantize_by_row", "qgemm", "gemm_w8", "eltwise_f32"),
    "intx_linear": ("quantize_by_row", "gemm_wq", "qgemm_wq", "eltwise_f32"),
    "permute": (),  # another view, or oneDNN's reorder
    "q_add": ("binary",),
    "q_attention": ("qattention",),
    "q_avg_pool": ("avgpool",),
    "q_batch_norm": ("channel_affine",),
    "q_concat": ("concat",),
    "q_conv": ("qconv", "dwconv", "qgemm", "lookup_table", "binary", "clamp"),
    "q_linear": ("qconv", "qgemm", "lookup_table", "binary", "clamp"),
    "q_linear_dynamic": ("minmax", "quantize", "qconv", "qgemm"),
    "q_max_pool": ("maxpool",),
    "q_mul": ("binary",),
    "q_shuffle": ("channel_shuffle",),
    "q_table": ("lookup_table",),
    "quantize": ("quantize",),
    "rms_norm": ("rms_norm",),
    "rotary": ("rotary",),
    "scale": ("elementwise",),
    "slice": (),  # another view, or oneDNN's reorder
    "slice_scatter": (),  # bytes
    "view": (),  # another view, or oneDNN's reorder
}

# Kinds that no pattern contains, with the tests that assert the steps of their plans.
ELSEWHERE = {
    "attention": "test_transformers.py",
    "cached_attention": "test_cache_room.py",
    "cross_attention": "test_cross_attention.py",
    "gated_product": "test_decoder_steps.py",
    "int8_linear": "../torchao_int8/test_plans.py",
    "intx_linear": "../torchao_intx/test_plans.py",
    "q_attention": "test_quantized_attention.py",
    "q_linear_dynamic": "test_int8.py",
    "rms_norm": "test_decoder_steps.py",
    "rotary": "test_decoder_steps.py",
    "scale": "test_decoder_steps.py",
    "slice_scatter": "test_mutations.py",
}

_HERE = Path(__file__).parent
_PATTERNS = [*_functions.PATTERNS, *_blocks.PATTERNS]


def _in_patterns() -> set[str]:
    columns = [[each.floats, each.lowered, each.pt2e] for each in _PATTERNS]
    return {
        kind
        for column in columns
        for partitions in column
        if not isinstance(partitions, Nothing)
        for partition in partitions
        for kind in partition
    }


def test_each_cpuaccel_op_kind_is_in_the_list() -> None:
    native = _native.native()
    assert native is not None
    assert set(native.registered_op_kinds()) == set(KERNELS)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_plan_that_has_it_is_tested(kind: str) -> None:
    if kind in ELSEWHERE:
        assert f'"{kind}"' in (_HERE / ELSEWHERE[kind]).read_text()
        assert kind not in _in_patterns(), f"remove it from ELSEWHERE: a pattern has {kind}"
    else:
        assert kind in _in_patterns()


@pytest.mark.parametrize("family", sorted({each for row in KERNELS.values() for each in row}))
def test_its_kernels_are_tested(family: str) -> None:
    tests = (_HERE.parent / "cpp" / f"test_{family}.cpp").read_text()
    assert f"kernels/{family}/{family}.h" in tests
