"""BF16 fast math: fp32 models run in BF16 arithmetic with fp32 sums."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cpuaccel import config
from cpuaccel._native import load

_warned = False


@contextmanager
def fastmath(enabled: bool = True) -> Iterator[None]:
    """Let fp32 matrix products and convolutions of a block run in BF16 arithmetic.

    Operands are rounded to bfloat16 (relative error at most 2^-9 each); sums and results stay fp32.
    Products of few rows or columns may stay in fp32, which is as fast for them. It is the same as
    setting `torch.backends.mkldnn.matmul.fp32_precision = "bf16"` (and that of `conv`) for the
    block; `torch.set_float32_matmul_precision("medium")` sets the former permanently. It needs a
    CPU with AVX512-BF16 or AMX; on others everything stays fp32, and a RuntimeWarning says so once.
    No rounded copy of a weight is cached, except for AMX under no_grad.

    `enabled=False` keeps a block inside of another one in fp32. Like torch's setting, this one is
    for the process and not for the thread.

    Raises:
        RuntimeError: cpuaccel cannot run here.
    """
    if enabled:
        _warn_if_missing()
    # torch's annotations lack these two.
    mkldnn: Any = torch.backends.mkldnn
    settings = (mkldnn.matmul, mkldnn.conv)
    before = [setting.fp32_precision for setting in settings]
    for setting in settings:
        setting.fp32_precision = "bf16" if enabled else "ieee"
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value


def _warn_if_missing() -> None:
    global _warned
    native = load()
    if _warned or native.has_bf16_arithmetic() or config.get("fastmath") == "emulate":
        return
    _warned = True
    warnings.warn(
        "cpuaccel.fastmath: this CPU has no BF16 arithmetic (AVX512-BF16 or AMX), or one that is "
        "slower than fp32; fp32 stays fp32",
        RuntimeWarning,
        stacklevel=4,
    )
