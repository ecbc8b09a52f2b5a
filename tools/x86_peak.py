"""Estimates which share of their peak the loops for AVX-VNNI reach on client cores, with llvm-mca.

    python tools/x86_peak.py [build/wheel]

Disassembles the objects of a build. In the functions of each row below it takes the innermost loop
with the most dot products. llvm-mca's core is Golden Cove, the large core of Alder Lake; it has no
model of its own of the small cores, Gracemont and those of Sierra Forest. Exits with 1 if a row is
below its limit.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from loop_share import Architecture, Share, cycles, find_loop, find_object, main, products

CORE = "alderlake"
BYTES = {"ymm": 32, "xmm": 16}
PEAK = 64
"""Multiply-adds of bytes in a cycle: two vpdpbusd of 32 bytes."""

X86 = Architecture(
    "objdump",
    re.compile(r"^ *([0-9a-f]+):\t((?:\{vex\} )?[a-z]\w*) *((?:(?! *#)[^<\n])*)", re.M),
    re.compile(r"j\w+$"),
    ("-mtriple=x86_64",),
    lambda instruction: instruction.operands,
)


@dataclass
class Row:
    """A kernel: functions of ``source``'s object whose symbol matches ``symbol``."""

    family: str
    symbol: str
    limit: float
    name: str = ""
    without: str = ""
    """An instruction that tells other loops of these functions."""


ROWS = [
    Row("qgemm", r"::dot_tile<.*AvxVnniDot4, 4, 3, false>", 0.95, "4 rows"),
    # Few rows read each weight once: 27 multiply-adds are 27 bytes in a cycle.
    Row("qgemm", r"::dot_tile<.*AvxVnniDot4, 2, 3, false>", 0.4, "2 rows"),
    Row("qgemm", r"::dot_tile<.*AvxVnniDot4, 1, 3, false>", 0.4, "1 row"),
    Row("qconv", r"qconv_x86_avxvnni", 0.9, "6 pixels", without="vpermilps"),
    # Each lane picks the four bytes of its own group.
    Row("qconv", r"qconv_x86_avxvnni", 0.4, "several groups"),
    # The loop is over results: a third of its instructions and more round and store them.
    Row("dwconv", r"::results<2, 3, 1>", 0.3, "3x3"),
    Row("dwconv", r"::results<2, 5, 2>", 0.6, "5x5"),
    Row("dwconv", r"::results<2, 7, 2>", 0.65, "7x7"),
]


def shares(build: pathlib.Path) -> Iterator[Share]:
    """What each row does."""
    names = ("vpdpbusd", "{vex} vpdpbusd")
    for row in ROWS:
        path = find_object(build, row.family, "x86_avxvnni", "make test")
        loop = find_loop(X86, X86.disassembly(path), row.symbol, names, row.without)
        done = sum(BYTES[i.operands.rpartition("%")[2][:3]] for i in products(loop, names))
        rate = done / cycles(X86, loop, CORE)
        yield Share(f"{row.family} x86_avxvnni {row.name}", CORE, rate, PEAK, row.limit)


if __name__ == "__main__":
    main(__doc__, "build/wheel", shares)
