"""Estimates which share of the peak of Arm cores the kernels' inner loops reach, with llvm-mca.

    python tools/arm_peak.py [build/aarch64-kernels]

Disassembles the objects of a cross build. In the functions of each row below it takes the innermost
loop with the most multiply-adds. llvm-mca treats it as straight-line code whose loads all hit L1,
so the result is an upper bound. Exits with 1 if a row is below its limit on one of the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mca import output

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSES = 200


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

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", re.M)
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t([a-z][\w.]*)\t?((?:(?! *//)[^<\n])*)", re.M)
BRANCHES = re.compile(r"(?:b\.\w+|b|cbn?z|tbn?z)$")


@dataclass
class Instruction:
    """One line of a disassembly."""

    address: int
    name: str
    operands: str

    def target(self) -> int | None:
        """The target address if it is a branch."""
        return int(self.operands.split()[-1], 16) if BRANCHES.match(self.name) else None

    def products(self, core: Core) -> int:
        """Its multiply-adds on ``core``."""
        count = PRODUCTS.get(self.name, (0, ""))[0]
        return count * (core.sve_bits // 128 if self.operands.startswith("z") else 1)


Loop = list[Instruction]


def innermost_loops(body: str) -> Iterator[Loop]:
    """The loops of a function that contain no other loop."""
    code = [Instruction(int(m[1], 16), m[2], m[3].strip()) for m in INSTRUCTION.finditer(body)]
    spans = []
    for instruction in code:
        target = instruction.target()
        if target is not None and code[0].address <= target <= instruction.address:
            spans.append((target, instruction.address))
    for begin, end in spans:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in spans):
            yield [i for i in code if begin <= i.address <= end]


def find_loop(disassembly: str, symbol: str, names: Collection[str]) -> Loop:
    """The loop with the most instructions in ``names``, among functions that match ``symbol``."""
    best: tuple[int, Loop] = (0, [])
    for match in FUNCTION.finditer(disassembly):
        if re.search(symbol, match[1]):
            for loop in innermost_loops(match[2]):
                best = max(best, (sum(i.name in names for i in loop), loop), key=lambda b: b[0])
    if best[0] == 0:
        raise SystemExit(f"arm_peak: no loop with {' or '.join(sorted(names))} in {symbol!r}")
    return best[1]


def cycles(mca: str, loop: Loop, core: Core) -> float:
    """Cycles of one pass of the loop."""
    lines = [".Lbegin:"]
    for instruction in loop:
        operands = instruction.operands
        if instruction.target() is not None:
            operands = " ".join([*operands.split()[:-1], ".Lbegin"])
        elif instruction.name in ("ucvtf", "scvtf"):
            # llvm-mca 19 takes conversions that divide by a power of two for cheaper.
            operands = operands.split(", #")[0]
        lines.append(f"\t{instruction.name}\t{operands}")
    command = [mca, "-mtriple=aarch64", f"-mcpu={core.name}", "-mattr=+sve,+bf16,+i8mm"]
    command += ["-dispatch=8", f"-iterations={PASSES}", "-json"]
    report = json.loads(output(command, text="\n".join(lines) + "\n"))
    return float(report["CodeRegions"][0]["SummaryView"]["TotalCycles"]) / PASSES


def rate(mca: str, row: Row, disassembly: str, core: Core) -> tuple[float, int]:
    """Multiply-adds per cycle, and the peak of the instruction that computes them."""
    loop = find_loop(disassembly, row.symbol, row.products)
    products = [i for i in loop if i.name in row.products]
    kind = PRODUCTS[products[0].name][1]
    for_one = cycles(mca, loop, core) / sum(i.products(core) for i in products)
    if row.converts:
        converting = find_loop(disassembly, row.converts, {"bfcvtn", "bfcvtn2"})
        floats = 4 * sum(i.name.startswith("bfcvtn") for i in converting)
        for_one += cycles(mca, converting, core) / floats / row.reuse
    return 1 / for_one, core.peaks[kind]


def tools() -> tuple[str, str]:
    """The paths of llvm-mca and objdump."""
    mca = shutil.which(os.environ.get("LLVM_MCA", "llvm-mca-19"))
    if mca is None:
        raise SystemExit("arm_peak: no llvm-mca-19: install llvm-19, or set LLVM_MCA to a newer")
    objdump = shutil.which("aarch64-linux-gnu-objdump")
    if objdump is None:
        raise SystemExit(
            "arm_peak: aarch64-linux-gnu-objdump is not on the PATH; install binutils for aarch64"
        )
    return mca, objdump


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "build",
        nargs="?",
        type=pathlib.Path,
        default=ROOT / "build/aarch64-kernels",
        help="folder of the cross build (default: build/aarch64-kernels)",
    )
    build: pathlib.Path = parser.parse_args().build
    mca, objdump = tools()
    failed = False
    print(f"{'kernel':<36}{'core':<14}{'MAC/cycle':>10}{'peak':>6}{'share':>8}{'limit':>8}")
    for row in ROWS:
        objects = list(build.glob(f"**/{row.family}/{row.source}.cpp.o"))
        if len(objects) != 1:
            missing = f"{build} has no object of {row.family}/{row.source}"
            raise SystemExit(f"arm_peak: {missing}; run make aarch64-kernels first")
        disassembly = output([objdump, "-d", "-C", "--no-show-raw-insn", str(objects[0])])
        name = f"{row.family} {row.source} {row.name}"
        for core in CORES:
            done, peak = rate(mca, row, disassembly, core)
            low = done / peak < row.limit
            failed = failed or low
            share = f"{done / peak:>8.1%}{row.limit:>8.0%}{'  below' if low else ''}"
            print(f"{name:<36}{core.name:<14}{done:>10.2f}{peak:>6}{share}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
