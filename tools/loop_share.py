"""The share of a core's peak that inner loops reach, by llvm-mca: what the tools for each
architecture share.

llvm-mca treats a loop as straight-line code whose loads all hit L1, so a share is an upper bound.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from mca import output

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSES = 200
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", re.M)


@dataclass
class Instruction:
    """One line of a disassembly."""

    address: int
    name: str
    operands: str
    is_branch: bool

    def target(self) -> int | None:
        """The target address if it is a branch."""
        return int(self.operands.split()[-1], 16) if self.is_branch else None


Loop = list[Instruction]


@dataclass
class Architecture:
    """How the objects of an architecture are read, and how llvm-mca is asked."""

    objdump: str
    """The program that disassembles its objects."""
    instruction: re.Pattern[str]
    """Groups: address, mnemonic, operands."""
    branch: re.Pattern[str]
    """Mnemonics of branches."""
    mca: tuple[str, ...]
    """Options of llvm-mca."""
    rewritten: Callable[[Instruction], str]
    """The operands of an instruction that is not a branch, as llvm-mca shall read them."""

    def disassembly(self, path: pathlib.Path) -> str:
        """Disassemble an object."""
        objdump = shutil.which(self.objdump)
        if objdump is None:
            raise SystemExit(f"{self.objdump} is not on the PATH; install binutils for it")
        return output([objdump, "-d", "-C", "--no-show-raw-insn", str(path)])


def innermost_loops(architecture: Architecture, body: str) -> Iterator[Loop]:
    """The loops of a function that contain no other loop."""
    code = [
        Instruction(int(m[1], 16), m[2], m[3].strip(), architecture.branch.match(m[2]) is not None)
        for m in architecture.instruction.finditer(body)
    ]
    spans = []
    for instruction in code:
        target = instruction.target()
        if target is not None and code[0].address <= target <= instruction.address:
            spans.append((target, instruction.address))
    for begin, end in spans:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in spans):
            yield [i for i in code if begin <= i.address <= end]


def find_loop(
    architecture: Architecture,
    disassembly: str,
    symbol: str,
    names: Collection[str],
    without: str = "",
) -> Loop:
    """The loop with the most instructions in ``names``, and no instruction called ``without``,
    among functions that match ``symbol``.
    """
    best: tuple[int, Loop] = (0, [])
    for match in FUNCTION.finditer(disassembly):
        if re.search(symbol, match[1]):
            for loop in innermost_loops(architecture, match[2]):
                if all(i.name != without for i in loop):
                    best = max(best, (sum(i.name in names for i in loop), loop), key=lambda b: b[0])
    if best[0] == 0:
        raise SystemExit(f"no loop with {' or '.join(sorted(names))} in {symbol!r}")
    return best[1]


def cycles(architecture: Architecture, loop: Loop, cpu: str) -> float:
    """Cycles of one pass of the loop."""
    lines = [".Lbegin:"]
    for instruction in loop:
        operands = architecture.rewritten(instruction)
        if instruction.is_branch:
            operands = " ".join([*instruction.operands.split()[:-1], ".Lbegin"])
        lines.append(f"\t{instruction.name}\t{operands}")
    command = [_mca(), *architecture.mca, f"-mcpu={cpu}", f"-iterations={PASSES}", "-json"]
    report = json.loads(output(command, text="\n".join(lines) + "\n"))
    return float(report["CodeRegions"][0]["SummaryView"]["TotalCycles"]) / PASSES


def find_object(build: pathlib.Path, family: str, source: str, how: str) -> pathlib.Path:
    """The object of a kernel's source in a build folder that the command ``how`` makes."""
    objects = list(build.glob(f"**/{family}/{source}.cpp.o"))
    if len(objects) != 1:
        raise SystemExit(f"{build} has no object of {family}/{source}; run {how} first")
    return objects[0]


@dataclass
class Share:
    """What a loop does on a core: multiply-adds in a cycle, the core's peak, and the limit."""

    kernel: str
    core: str
    done: float
    peak: float
    limit: float


def report(shares: Iterator[Share]) -> None:
    """Print a line for each; exit with 1 if one is below its limit."""
    failed = False
    print(f"{'kernel':<36}{'core':<14}{'MAC/cycle':>10}{'peak':>6}{'share':>8}{'limit':>8}")
    for each in shares:
        low = each.done / each.peak < each.limit
        failed = failed or low
        share = f"{each.done / each.peak:>8.1%}{each.limit:>8.0%}{'  below' if low else ''}"
        print(f"{each.kernel:<36}{each.core:<14}{each.done:>10.2f}{each.peak:>6}{share}")
    if failed:
        raise SystemExit(1)


def main(doc: str, build: str, shares: Callable[[pathlib.Path], Iterator[Share]]) -> None:
    """The entry point of a tool with this docstring, which reads ``build`` by default."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument(
        "build",
        nargs="?",
        type=pathlib.Path,
        default=ROOT / build,
        help=f"folder of the build (default: {build})",
    )
    report(shares(parser.parse_args().build))


def products(loop: Loop, names: Collection[str]) -> Sequence[Instruction]:
    """The instructions of a loop that multiply."""
    return [instruction for instruction in loop if instruction.name in names]


def _mca() -> str:
    mca = shutil.which(os.environ.get("LLVM_MCA", "llvm-mca-19"))
    if mca is None:
        raise SystemExit("no llvm-mca-19: install llvm-19, or set LLVM_MCA to a newer one")
    return mca
