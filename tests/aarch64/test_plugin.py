"""The effects of `import torch` on Arm, and what cpuaccel reports of the core."""

from __future__ import annotations

import ctypes
import platform
import sys

import pytest
import torch

import cpuaccel
from cpuaccel.__main__ import main
from cpuaccel._native import load
from cpuaccel.config import ISAS

# Each CPU feature of qemu's cores with the ISA that it implies, best first.
_ISA_OF_FEATURE = (("svebf16", "sve"), ("i8mm", "i8mm"), ("asimddp", "dotprod"), ("asimd", "neon"))
_PR_SVE_GET_VL, _PR_SVE_VL_LEN_MASK = 51, 0xFFFF


def test_importing_torch_turns_it_on() -> None:
    assert "cpuaccel" in sys.modules
    assert cpuaccel.is_enabled()


def test_the_newest_isa_that_the_core_has() -> None:
    has = load().cpu_features()
    newest = next(isa for feature, isa in _ISA_OF_FEATURE if feature in has)
    if newest == "sve" and ctypes.CDLL(None).prctl(_PR_SVE_GET_VL) & _PR_SVE_VL_LEN_MASK == 32:
        newest = "sve256"
    assert load().isa() == newest


@pytest.mark.parametrize("isa", ISAS)
def test_every_isa_is_a_cap(isa: str) -> None:
    before, best = cpuaccel.config.get("max_isa"), ISAS.index(load().isa())
    cpuaccel.config.set("max_isa", isa)
    try:
        assert load().isa() == ISAS[min(ISAS.index(isa), best)]
    finally:
        cpuaccel.config.set("max_isa", before)


def test_an_x86_isa_is_rejected_by_name() -> None:
    with pytest.raises(ValueError, match=r"max_isa.*neon.*got 'avx2'"):
        cpuaccel.config.set("max_isa", "avx2")


def test_the_x86_engine_is_rejected_as_in_torch() -> None:
    assert platform.machine() == "aarch64"
    assert set(torch.backends.quantized.supported_engines) == {"qnnpack", "onednn"}
    with pytest.raises(RuntimeError, match="X86 is not supported"):
        torch.backends.quantized.engine = "x86"


def test_info_names_the_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info"])
    assert "asimd" in capsys.readouterr().out


def test_large_tensors_begin_on_huge_pages() -> None:
    assert load().allocator_installed()
    huge = 2 << 20
    tensors = [torch.empty(size, dtype=torch.uint8) for size in (huge, 3 * huge + 5)]
    assert all(each.data_ptr() % huge == 0 for each in tensors)
    first = tensors[0].data_ptr()
    del tensors
    assert first in {torch.empty(huge, dtype=torch.uint8).data_ptr() for _ in range(2)}
