"""Estimates which share of the peak of Arm cores the kernels' inner loops reach, with llvm-mca.

    python tools/arm_peak.py [build/aarch64-kernels]

Disassembles the objects of a cross build. In the functions of each row below it takes the innermost
loop with the most multiply-adds. llvm-mca treats it as straight-line code whose loads all hit L1,
so the result is an upper bound. Exits with 1 if a row is below its limit on one of the cores.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from loop_share import (
    Architecture,
    Instruction,
    Share,
    cycles,
    find_loop,
    find_object,
    main,
    products,
)


@dataclass
class Core:
    """A Neoverse core: the bits of an SVE register, and its peaks in multiply-adds per cycle."""

    name: str
    sve_bits: int
    peaks: dict[str, int]


CORES = [
    Core("neoverse-v1", 256, {"fmla": 16, "bfmmla": 64, "bfdot": 32, "smmla": 128, "sdot": 64}),
    Core("neoverse-v2", 128, {"fmla": 16, "bfmmla": 64, "bfdot": 32, "smmla": 128, "sdot": 64}),
]

# Multiply-adds of one 128-bit instruction, and the peak that it counts against.
PRODUCTS = {
    "fmla": (4, "fmla"),
    "bfmmla": (16, "bfmmla"),
    "bfdot": (8, "bfdot"),
    "smmla": (32, "smmla"),
    "ummla": (32, "smmla"),
    "usmmla": (32, "smmla"),
    "sdot": (16, "sdot"),
    "udot": (16, "sdot"),
    "usdot": (16, "sdot"),
}


@dataclass
class Row:
    """A kernel: functions of ``source``'s object whose symbol matches ``symbol``."""

    family: str
    source: str
    symbol: str
    limit: float
    # Name of the loop, unless it is that of the large tiles.
    name: str = ""
    # Symbol of a loop that first rounds floats of A with bfcvtn. Each float serves `reuse` columns:
    # a block of A is packed once per work item, which has 512 columns if there are that many.
    converts: str = ""
    reuse: int = 1
    # Names of its products, for a function that has other loops with multiply-adds.
    products: frozenset[str] = frozenset(PRODUCTS)


SMMLA, SDOT = frozenset({"smmla"}), frozenset({"sdot"})

ROWS = [
    Row("gemm", "arm64_neon", r"::tile<.*F32Elements>, 8, 3>", 0.95),
    Row("gemm", "arm64_neon", r"::dot_tile<.*::F32Elements>, 6, 4>", 0.95, name="dot"),
    Row("gemm_bf16", "arm64_i8mm", r"::quad_tile<false, 4, 3>", 0.96),
    Row("gemm_bf16", "arm64_i8mm", r"::dot_tile<.*::F32Elements>, 6, 4>", 0.95, name="dot"),
    Row(
        "gemm_bf16",
        "arm64_i8mm",
        r"::quad_tile<false, 4, 3>",
        0.75,
        "from f32",
        r"::quads_along<.*OfF32",
        512,
    ),
    Row("gemm", "arm64_sve", r"SveTile<.*::F32>::run<8, 3>", 0.95),
    Row("gemm", "arm64_sve", r"SveDot<.*::F32>::.*tile<6, 4>", 0.95, name="dot"),
    Row("gemm_bf16", "arm64_sve", r"SveQuadTile<false>::run<4, 3>", 0.96),
    Row("gemm_bf16", "arm64_sve", r"SveDot<.*::F32>::.*tile<6, 4>", 0.95, name="dot"),
    Row(
        "gemm_bf16",
        "arm64_sve",
        r"SveQuadTile<false>::run<4, 3>",
        0.75,
        "from f32",
        r"::quads_along<.*OfF32",
        512,
    ),
    Row("qgemm", "arm64_sve", r"::matrix_tile<4, 3>", 0.96),
    Row("qgemm", "arm64_i8mm", r"::matrix_tile<4, 3>", 0.96),
    Row("qgemm", "arm64_dotprod", r"::dot_tile<8, 3>", 0.96),
    # The codes of 4 and of 8 bits are the same when they are unpacked. A loop of groups of 32 holds
    # the ends, too: a subtraction, a multiply-add and a store for each vector of sums.
    Row("qgemm_wq", "arm64_i8mm", r"::multiply_tile<.*, 0, false, false>", 0.96, products=SMMLA),
    Row(
        "qgemm_wq",
        "arm64_i8mm",
        r"::multiply_tile<.*, 4, false, false>",
        0.55,
        "group of 32",
        products=SMMLA,
    ),
    Row("qgemm_wq", "arm64_dotprod", r"::multiply_tile<.*, 0, false, false>", 0.96, products=SDOT),
    # Few rows of queries by keys that they share, and weights by values. What is not f32 is widened
    # when it is loaded.
    Row("attention", "arm64_neon", r"::group_scores_of<.*::F32, 8>", 0.95, "f32 keys, 8"),
    Row("attention", "arm64_neon", r"::group_scores_of<.*::Bf16, 8>", 0.85, "bf16 keys, 8"),
    Row("attention", "arm64_neon", r"::group_scores_of<.*::Bf16, 4>", 0.75, "bf16 keys, 4"),
    Row("attention", "arm64_neon", r"::group_scores_of<.*::S8, 8>", 0.65, "int8 keys, 8"),
    Row("attention", "arm64_neon", r"::group_values_of<.*::F32, 8>", 0.95, "f32 values, 8"),
    Row("attention", "arm64_neon", r"::group_values_of<.*::Bf16, 8>", 0.85, "bf16 values, 8"),
    Row("attention", "arm64_neon", r"::group_values_of<.*::S8, 8>", 0.65, "int8 values, 8"),
    Row("attention", "arm64_neon", r"::group_values_of<.*::S8, 4>", 0.55, "int8 values, 4"),
    Row(
        "attention",
        "arm64_i8mm",
        r"::group_scores_of_bytes<8>",
        0.75,
        "int8 keys, 8",
        products=SMMLA,
    ),
    Row(
        "attention",
        "arm64_i8mm",
        r"::group_scores_of_bytes<4>",
        0.70,
        "int8 keys, 4",
        products=SMMLA,
    ),
    Row("gemm_wq", "arm64_neon", r"::tile_of<4, 1,", 0.20, "int4, 1 row"),
    Row("gemm_wq", "arm64_neon", r"::tile_of<4, 8,", 0.60, "int4, 8 rows"),
    Row("gemm_wq", "arm64_neon", r"::tile_of<8, 8,", 0.60, "int8, 8 rows"),
    # Few rows: unpacking and loads take as long as the products.
    Row(
        "qgemm_wq", "arm64_dotprod", r"::one_row<.*, 4, .*F32.*", 0.48, "int4, 1 row", products=SDOT
    ),
    Row(
        "qgemm_wq", "arm64_dotprod", r"::one_row<.*, 8, .*F32.*", 0.70, "int8, 1 row", products=SDOT
    ),
    Row("qgemm_wq", "arm64_dotprod", r"::few_rows<.*4, 4>", 0.78, "int4, 4 rows", products=SDOT),
    Row(
        "qgemm_wq",
        "arm64_i8mm",
        r"::few_pairs<4, .*F32.*, 4,",
        0.60,
        "int4, 8 rows",
        products=SMMLA,
    ),
    Row(
        "qgemm_wq",
        "arm64_i8mm",
        r"::few_pairs<8, .*F32.*, 4,",
        0.60,
        "int8, 8 rows",
        products=SMMLA,
    ),
]


def rewritten(instruction: Instruction) -> str:
    """The operands of an instruction, as llvm-mca shall read them."""
    if instruction.name in ("ucvtf", "scvtf"):
        # llvm-mca 19 takes conversions that divide by a power of two for cheaper.
        return instruction.operands.split(", #")[0]
    return instruction.operands


ARM = Architecture(
    "aarch64-linux-gnu-objdump",
    re.compile(r"^ *([0-9a-f]+):\t([a-z][\w.]*)\t?((?:(?! *//)[^<\n])*)", re.M),
    re.compile(r"(?:b\.\w+|b|cbn?z|tbn?z)$"),
    ("-mtriple=aarch64", "-mattr=+sve,+bf16,+i8mm", "-dispatch=8"),
    rewritten,
)


def products_of(instruction: Instruction, core: Core) -> int:
    """The multiply-adds of an instruction on ``core``."""
    count = PRODUCTS.get(instruction.name, (0, ""))[0]
    return count * (core.sve_bits // 128 if instruction.operands.startswith("z") else 1)


def rate(row: Row, disassembly: str, core: Core) -> tuple[float, int]:
    """Multiply-adds per cycle, and the peak of the instruction that computes them."""
    loop = find_loop(ARM, disassembly, row.symbol, row.products)
    multiplying = products(loop, row.products)
    kind = PRODUCTS[multiplying[0].name][1]
    for_one = cycles(ARM, loop, core.name) / sum(products_of(i, core) for i in multiplying)
    if row.converts:
        converting = find_loop(ARM, disassembly, row.converts, {"bfcvtn", "bfcvtn2"})
        floats = 4 * sum(i.name.startswith("bfcvtn") for i in converting)
        for_one += cycles(ARM, converting, core.name) / floats / row.reuse
    return 1 / for_one, core.peaks[kind]


def shares(build: pathlib.Path) -> Iterator[Share]:
    """What each row does on each core."""
    for row in ROWS:
        path = find_object(build, row.family, row.source, "make aarch64-kernels")
        disassembly = ARM.disassembly(path)
        for core in CORES:
            done, peak = rate(row, disassembly, core)
            name = f"{row.family} {row.source} {row.name}"
            yield Share(name, core.name, done, peak, row.limit)


if __name__ == "__main__":
    main(__doc__, "build/aarch64-kernels", shares)
