"""Which library computes matrix products here: a table of measured rows, one file.

`matmul.csv` beside this module has rows for CPUs that were measured; `python -m cpuaccel tune`
measures this one and writes a file of the same form, whose rows go before those. A CPU without a
row stays with torch's own kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cpuaccel import _table, config
from cpuaccel._files import user_folder
from cpuaccel._native import Native, native

__all__ = ["TABLE", "MatmulRow", "own_table", "read", "write"]

TABLE = Path(__file__).with_name("matmul.csv")
"""The rows that come with the package."""

DTYPES = ("float32", "bfloat16", "float16")
PROVIDERS = ("cpuaccel", "onednn", "intree")
_ARM = ("neon", "dotprod", "i8mm", "sve")
ISAS = ("avx2", "avx512", *_ARM)
_NO_LIMIT = 2**62


@dataclass(frozen=True)
class MatmulRow:
    """Products of up to `max_M` rows and `max_work` multiply-adds (0: any) go to `provider`.

    The first row that matches wins. `vendor` is CPUID's, on Arm the core's name or * for any, `isa`
    is avx2, avx512 or a rung of Arm. `speedup` is over torch's kernel, as it was measured, and
    `measured` says where.
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
        """Raise ValueError, naming the column, if a value is none of its column's."""
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
    """Return where this machine's own rows are, or would be.

    CPUACCEL_MATMUL_TABLE names it; else it is in the user's configuration folder.
    """
    named = str(config.get("matmul_table"))
    if named:
        return Path(named)
    return user_folder("XDG_CONFIG_HOME", ".config") / "matmul.csv"


def read(path: Path) -> list[MatmulRow]:
    """Return the rows of a table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no table; the message names the file, the line and the column.
    """
    return _table.read(path, MatmulRow, MatmulRow.check)


def write(path: Path, table: Iterable[MatmulRow]) -> None:
    """Write a table that `read` reads; a file that is there is replaced at once or not at all."""
    _table.write(path, MatmulRow, table)


def machine() -> tuple[str, str]:
    """Return this machine's vendor and ISA, as rows have them; empty where nothing is loaded."""
    module = native()
    return ("", "") if module is None else _machine(module)


def install(module: Native) -> None:
    """Hand the rows for this machine to the native part."""
    module.set_matmul_rows(
        [
            (row.dtype, row.max_M or _NO_LIMIT, row.max_work or _NO_LIMIT, row.provider)
            for row in _rows(_machine(module))
        ]
    )


def _machine(module: Native) -> tuple[str, str]:
    isa = module.isa()
    if isa.startswith("avx512"):
        return module.cpu_vendor(), "avx512"
    if isa.startswith("sve"):
        isa = "sve"
    if isa in _ARM:
        return module.cpu_core() or module.cpu_vendor(), isa
    return module.cpu_vendor(), "avx2"


def _rows(machine: tuple[str, str]) -> list[MatmulRow]:
    found: list[MatmulRow] = []
    for path in (own_table(), TABLE):
        try:
            found += read(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            message = f"cpuaccel does not use a table of matrix products: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    vendor, isa = machine
    return [row for row in found if row.vendor in (vendor, "*") and row.isa == isa]
