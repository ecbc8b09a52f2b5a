"""Tables choose as on another CPU for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from _settings import setting

from cpuaccel import matmul
from cpuaccel._native import load


@contextmanager
def as_cpu(names: str) -> Iterator[None]:
    """Choose as on a CPU with this vendor and core."""
    try:
        with setting("cpu", names):
            matmul.install(load())
            yield
    finally:
        matmul.install(load())


@contextmanager
def as_amd() -> Iterator[None]:
    """Choose as on the CPU of AMD that has this CPU's ISA; skip where there is none."""
    native = load()
    if not native.isa().startswith("avx") or native.has_amx_arithmetic():
        pytest.skip(f"isa() is {native.isa()}, or has AMX: no CPU of AMD is like this one")
    core = "Zen 4" if native.isa().startswith("avx512") else "Zen 3"
    with as_cpu(f"AuthenticAMD {core}"):
        yield
