"""The machine and the settings that benchmark results were measured with: CPU, ISA, caches."""

import os
import platform
import sys
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import _plugin

# The features that int8 and bf16 kernels are chosen by, spelled as in /proc/cpuinfo.
_FEATURES = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimddp", "i8mm", "bf16", "sve", "sve2"),
)
_FILE_WIDTH = 200
_BYTES_OF = {"K": 1 << 10, "M": 1 << 20}
_CAPS = ("CPUACCEL_MAX_ISA", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


def describe(*, batch: int | None = None) -> dict[str, str]:
    """The machine and the settings that results depend on, without a date."""
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
    """The ISA features of this CPU that matter to int8 and bf16 kernels."""
    present = set(_cpuinfo("flags", "Features").split())
    return [name for name in _FEATURES if name in present]


def caches() -> dict[str, int]:
    """Bytes of each data cache of core 0 ("L1", "L2", ...), smallest first, read from sysfs."""
    sizes = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind, size = ((folder / n).read_text().strip() for n in ("level", "type", "size"))
        if kind != "Instruction":
            sizes[f"L{level}"] = int(size[:-1]) * _BYTES_OF[size[-1]]
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def last_cache() -> int:
    """Bytes of the largest cache, or 32 MiB if the system does not report any."""
    return max(caches().values(), default=32 << 20)


def resident() -> float:
    """Resident memory of this process, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def console() -> Console:
    """Console for tables: the width of the terminal, or 200 columns when output goes to a file."""
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
