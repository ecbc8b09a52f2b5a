"""The table of measured costs that decides which library computes matrix products on this CPU.

`matmul.csv` beside this module has rows for CPUs that were measured. `python -m cpuaccel tune`
measures this CPU and writes a file of the same format, whose rows come first. Rows that were
measured on another CPU suggest a library, and calls learn which one is the fastest
(csrc/base/learned_choice.h); a CPU without rows begins with torch's own kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cpuaccel import _csv_table, config
from cpuaccel._files import user_folder
from cpuaccel._native import Native, native

__all__ = ["TABLE", "MatmulRow", "own_table", "read", "write"]

TABLE = Path(__file__).with_name("matmul.csv")
"""The rows that come with the package."""

DTYPES = ("float32", "bfloat16", "float16")
PROVIDERS = ("cpuaccel", "onednn", "intree")
_ARM = ("neon", "dotprod", "i8mm", "sve")
ISAS = ("avx2", "avx512", "amx", *_ARM)
_NO_LIMIT = 2**62


@dataclass(frozen=True)
class MatmulRow:
    """Products of up to `max_M` rows and `max_work` multiply-adds (0: any) run on `provider`.

    The first row that matches wins. `vendor` is CPUID's vendor, on Arm the name of the core, or *
    for any. `isa` is avx2, avx512, amx (which has AVX-512, too) or one of the ISAs of Arm.
    `speedup` is the measured one over torch's kernel. `measured` says how it was measured; in the
    rows of the package it begins with the core, such as "Zen 4, ".
    """

    vendor: str
    isa: str
    dtype: str
    max_M: int
    max_work: int
    provider: str
    speedup: str
    measured: str

    def check(self) -> None:
        """Raise ValueError, which names the column, if a value is not valid in its column."""
        for column, value, expected in (
            ("dtype", self.dtype, DTYPES),
            ("isa", self.isa, ISAS),
            ("provider", self.provider, PROVIDERS),
        ):
            if value not in expected:
                raise ValueError(f"{column}: expected one of {', '.join(expected)}, got {value!r}")
        for column, number in (("max_M", self.max_M), ("max_work", self.max_work)):
            if number < 0:
                raise ValueError(f"{column}: expected 0 (any) or more, got {number}")


def own_table() -> Path:
    """Return the path of this machine's own table, whether it exists or not.

    CPUACCEL_MATMUL_TABLE names it; otherwise it is in the user's configuration folder.
    """
    named = str(config.get("matmul_table"))
    if named:
        return Path(named)
    return user_folder("XDG_CONFIG_HOME", ".config") / "matmul.csv"


def read(path: Path) -> list[MatmulRow]:
    """Return the rows of a table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a table; the message names the file, the line and the column.
    """
    return _csv_table.read(path, MatmulRow, MatmulRow.check)


def write(path: Path, table: Iterable[MatmulRow]) -> None:
    """Write a table that `read` reads. An existing file is replaced at once or not at all."""
    _csv_table.write(path, MatmulRow, table)


def machine() -> tuple[str, str]:
    """Return this machine's vendor and ISA as in rows; empty if the C++ module is not loaded."""
    module = native()
    return ("", "") if module is None else _machine(module)


def install(module: Native) -> None:
    """Pass the rows for this machine to the C++ module."""
    module.set_matmul_rows(
        [
            (row.dtype, row.max_M or _NO_LIMIT, row.max_work or _NO_LIMIT, row.provider, here)
            for row, here in _rows(module)
        ]
    )


def where_measured(module: Native) -> dict[str, bool]:
    """Return where the rows for this machine were measured, and whether that was on its core."""
    return {row.measured: here for row, here in _rows(module)}


def _machine(module: Native) -> tuple[str, str]:
    isa = module.isa()
    if isa.startswith("avx512"):
        return module.cpu_vendor(), "amx" if module.has_amx_arithmetic() else "avx512"
    if isa.startswith("sve"):
        isa = "sve"
    if isa in _ARM:
        return module.cpu_core() or module.cpu_vendor(), isa
    return module.cpu_vendor(), "avx2"


def _rows(module: Native) -> list[tuple[MatmulRow, bool]]:
    """Return the rows for this machine, and whether each was measured on its core."""
    core = module.cpu_core()
    found: list[tuple[MatmulRow, bool]] = []
    for path in (own_table(), TABLE):
        try:
            rows = read(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            message = f"cpuaccel ignores a table of matrix products: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            continue
        for row in rows:
            is_here = path != TABLE or (core != "" and row.measured.startswith(f"{core}, "))
            found.append((row, is_here))
    vendor, isa = _machine(module)
    return [each for each in found if each[0].vendor in (vendor, "*") and each[0].isa == isa]
