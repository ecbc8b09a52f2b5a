"""The tests without torch.ao: CPUACCEL_TEST_WITHOUT_TORCH_AO=1 blocks it (_torch_ao_block.py).

The block also holds in the processes that tests start. Tests of torch.ao's own workflows are
skipped: those with the marker `needs_front_end` or `needs_torch_ao` (quant/_engine.py), and the
modules of NEED_TORCH_AO. Every other test that asks for torch.ao fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import _torch_ao_block
import pytest

_VARIABLE = "CPUACCEL_TEST_WITHOUT_TORCH_AO"
_TESTS = Path(__file__).resolve().parent
_AT_START = str(_TESTS / "_at_start")

_OPS = "ops on torch's quantized tensors"
_PACKED = "torch's packed weights"
_MODELS = "models that torch.ao made"
_FILES = "torch.ao makes the files; load_legacy reads them without it in every run"

NEED_TORCH_AO = {
    "compile/test_accuracy.py": _MODELS,
    "compile/test_converted_eager_models.py": _MODELS,
    "compile/test_exported_models.py": _MODELS,
    "ops/test_avg_pool.py": _OPS,
    "ops/test_batch_norm.py": _OPS,
    "ops/test_binary.py": _OPS,
    "ops/test_cat.py": _OPS,
    "ops/test_channel_shuffle.py": _OPS,
    "ops/test_clamp.py": _OPS,
    "ops/test_clone.py": _OPS,
    "ops/test_max_pool.py": _OPS,
    "ops/test_quantize.py": _OPS,
    "ops/test_quantized_activations.py": _OPS,
    "ops/test_quantized_table.py": _OPS,
    "ops/test_upsample.py": _OPS,
    "quant/legacy/test_converted.py": _FILES,
    "quant/legacy/test_dynamic.py": _FILES,
    "quant/legacy/test_eager.py": _FILES,
    "quant/legacy/test_hostile.py": _FILES,
    "quant/legacy/test_old_versions.py": _FILES,
    "quant/legacy/test_plans.py": _FILES,
    "quant/legacy/test_run.py": _FILES,
    "quant/test_bad_input.py": _PACKED,
    "quant/test_conv.py": _PACKED,
    "quant/test_conv_add.py": _PACKED,
    "quant/test_conv_transpose.py": _PACKED,
    "quant/test_copy_save_load.py": _PACKED,
    "quant/test_cpuaccel_kernels.py": _PACKED,
    "quant/test_damaged.py": _PACKED,
    "quant/test_dynamic.py": _PACKED,
    "quant/test_exact_sums.py": f"{_PACKED}; compile/test_int8_exact.py has plain tensors",
    "quant/test_forked.py": _PACKED,
    "quant/test_front_end.py": _MODELS,
    "quant/test_fuse.py": _MODELS,
    "quant/test_fuse_graphs.py": _MODELS,
    "quant/test_fuse_models.py": _MODELS,
    "quant/test_fuse_modules.py": _MODELS,
    "quant/test_fuse_random.py": _MODELS,
    "quant/test_linear.py": _PACKED,
    "quant/test_linear_post_ops.py": _PACKED,
    "quant/test_lower.py": _MODELS,
    "quant/test_lower_eager.py": _MODELS,
    "quant/test_memory.py": _PACKED,
    "quant/test_models.py": _MODELS,
    "quant/test_primitive_cache.py": _PACKED,
    "quant/test_saved_modules.py": _MODELS,
    "quant/test_switch.py": _PACKED,
    "quant/test_threads.py": _PACKED,
    "quant/test_workflows.py": _MODELS,
    "test_explain.py": f"{_MODELS}; torchao_int8/test_explain.py has plain tensors",
}
"""Modules of which every test needs torch.ao, with what they test."""


def is_on() -> bool:
    """Return whether this run blocks torch.ao."""
    return os.environ.get(_VARIABLE) == "1"


def install() -> None:
    """Block torch.ao, here and in all processes that this one starts, if the run asks for it."""
    if is_on():
        _torch_ao_block.install()
        paths = [_AT_START, os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def environment_without_block() -> dict[str, str]:
    """Return the environment of a process that blocks what it needs itself."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(path for path in paths if path and path != _AT_START)
    return {**os.environ, "PYTHONPATH": kept}


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule(module_path: Path) -> Iterator[None]:
    """Leave out the modules of NEED_TORCH_AO."""
    collected = yield
    name = str(module_path.relative_to(_TESTS)) if module_path.is_relative_to(_TESTS) else ""
    if is_on() and name in NEED_TORCH_AO and collected is not None:
        reason = f"needs torch.ao, which {_VARIABLE}=1 blocks: {NEED_TORCH_AO[name]}"
        collected.collect = lambda: pytest.skip(reason, allow_module_level=True)
    return collected
