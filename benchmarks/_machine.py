"""What a figure was measured on."""

import os
import platform
import sys
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import _plugin

# What decides which int8 and bf16 kernels a library picks, as /proc/cpuinfo spells it.
_FEATURES = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimddp", "i8mm", "bf16", "sve", "sve2"),
)
_FILE_WIDTH = 200
_BYTES_OF = {"K": 1 << 10, "M": 1 << 20}
_CAPS = ("CPUACCEL_MAX_ISA", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


def describe(*, batch: int | None = None) -> dict[str, str]:
    """The machine and the settings that figures depend on, without a date."""
    facts = {
        "cpu": _cpu_model(),
        "isa": " ".join(features()) or platform.machine(),
        "torch capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "cpuaccel": _plugin.version(),
        "threads": str(torch.get_num_threads()),
    }
    if batch is not None:
        facts["batch"] = str(batch)
    facts.update({name: os.environ[name] for name in _CAPS if name in os.environ})
    return facts


def features() -> list[str]:
    """Which of the instruction sets that int8 and bf16 kernels differ by the CPU has."""
    present = set(_cpuinfo("flags", "Features").split())
    return [name for name in _FEATURES if name in present]


def caches() -> dict[str, int]:
    """Bytes of a core's L1, L2 and so on for data, the smallest first; what the system tells."""
    sizes = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind, size = ((folder / n).read_text().strip() for n in ("level", "type", "size"))
        if kind != "Instruction":
            sizes[f"L{level}"] = int(size[:-1]) * _BYTES_OF[size[-1]]
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def last_cache() -> int:
    """Bytes of the largest cache, or 32 MiB where the system does not tell."""
    return max(caches().values(), default=32 << 20)


def console() -> Console:
    """Where tables go: as wide as the terminal, or wide enough for any of them in a file."""
    return Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)


def _cpuinfo(*keys: str) -> str:
    """The first value of any of `keys` in /proc/cpuinfo, or ""."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in keys:
            return value.strip()
    return ""


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()
