"""Runs code on torch's own kernels or on one of cpuaccel's providers, and counts the calls."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import _without_torch_ao
import pytest
import torch
from _settings import setting

INTREE = "intree"
OURS = ("auto", "cpuaccel", "onednn", "fbgemm")
BACKENDS = (INTREE, *OURS)
LAYERS = ("linear", "conv")
"""Name prefixes of counted ops with weights."""


def missing() -> str:
    """Why cpuaccel cannot be tested here, or an empty string if it can."""
    if os.environ.get("CPUACCEL") == "0":
        return "CPUACCEL=0 switches the plugin off"
    try:
        importlib.metadata.version("cpuaccel")
    except importlib.metadata.PackageNotFoundError:
        return "cpuaccel is not installed"
    return ""


def torch_ao_is_blocked() -> bool:
    """Return whether this run has no torch.ao (_without_torch_ao.py)."""
    return _without_torch_ao.is_on()


def missing_front_end() -> str:
    """Why torch.ao's quantized tensors cannot be tested on cpuaccel here, or an empty string."""
    if reason := missing():
        return reason
    if torch_ao_is_blocked():
        return _BLOCKED
    from cpuaccel.quant._front_end import MISSING, has_front_end

    try:
        return "" if has_front_end() else MISSING
    except RuntimeError as error:
        return str(error)


_BLOCKED = "needs torch.ao, which CPUACCEL_TEST_WITHOUT_TORCH_AO=1 blocks"
needs_torch_ao = pytest.mark.skipif(torch_ao_is_blocked(), reason=_BLOCKED)
needs_plugin = pytest.mark.skipif(bool(missing()), reason=missing())
needs_front_end = pytest.mark.skipif(bool(missing_front_end()), reason=missing_front_end())
backends = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(name, marks=needs_torch_ao if name == INTREE else needs_front_end)
        for name in BACKENDS
    ],
)
ours = pytest.mark.parametrize("backend", [pytest.param(n, marks=needs_front_end) for n in OURS])


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Sets `torch.backends.quantized.engine` for a block."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


@contextmanager
def running(backend: str) -> Iterator[None]:
    """Engine x86, run by torch's own kernels ("intree") or by a provider of cpuaccel."""
    with engine("x86"), off() if backend == INTREE else _on(backend):
        yield


@contextmanager
def _on(provider: str) -> Iterator[None]:
    import cpuaccel

    if provider != "auto" and not _has(provider):
        pytest.skip(f"the plugin is built without {provider}")
    with setting("provider", provider), cpuaccel.enabled(True):
        yield


def _has(provider: str) -> bool:
    from cpuaccel._native import load

    built = load().build_info()
    key = {"onednn": "onednn_compiled"}.get(provider, provider)
    return provider == "cpuaccel" or bool(built.get(key))


def off() -> AbstractContextManager[object]:
    """Context with torch's own kernels; without cpuaccel it does nothing."""
    if missing():
        return nullcontext()
    import cpuaccel

    return cpuaccel.enabled(False)


@dataclass
class Counts:
    """cpuaccel's counters in a block."""

    calls: dict[str, int] = field(default_factory=dict)
    prepacks: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)

    def ours(self, op: str = "") -> int:
        """Calls that a provider of cpuaccel ran, of one op or of all ops with weights."""
        return self._calls(op, ("cpuaccel", "onednn", "fbgemm"))

    def without_copies(self) -> dict[str, int]:
        """Calls of all ops except clone, which packing and other input layouts cause."""
        return {name: n for name, n in self.calls.items() if not name.startswith("clone.")}

    def intree(self, op: str = "") -> int:
        """Calls that torch's own kernels ran on an object of cpuaccel, likewise."""
        return self._calls(op, ("intree",))

    def _calls(self, op: str, providers: tuple[str, ...]) -> int:
        names = (name.rpartition(".") for name in self.calls)
        return sum(
            self.calls[f"{of}.{provider}"]
            for of, _, provider in names
            if provider in providers and (of == op or (op == "" and of.startswith(LAYERS)))
        )


@contextmanager
def counted() -> Iterator[Counts]:
    """Counts cpuaccel's calls in the block; none if it is not installed."""
    counts = Counts()
    before = _snapshot()
    yield counts
    after = _snapshot()
    for part in ("calls", "prepacks", "fallbacks"):
        old, new = before.get(part, {}), after.get(part, {})
        changed = {k: n - old.get(k, 0) for k, n in new.items() if n != old.get(k, 0)}
        setattr(counts, part, changed)


def _snapshot() -> dict[str, dict[str, int]]:
    if missing():
        return {}
    import cpuaccel

    return cpuaccel.stats()


def assert_ran(counts: Counts, op: str, backend: str) -> None:
    """Asserts that cpuaccel counted a run or a fallback; with `backend` "intree" no run."""
    if backend == INTREE:
        assert not counts.calls, f"the plugin is off, and ran {counts.calls}"
        return
    seen = counts.ours(op) or counts.intree(op) or counts.fallbacks
    assert seen, f"{op} on {backend}: ran {counts.calls}, no fallback counted"
