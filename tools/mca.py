"""Estimates the throughput of a kernel's hot loop on other CPUs, with llvm-mca.

    python tools/mca.py csrc/kernels/quantize/x86_avx512.cpp [--cpu znver4] [--loop N] [--list]

Compiles the source to assembly with the flags of the build and analyzes one innermost loop. It
takes the loop with the most dot products, then the most vector instructions; --list shows all
loops, --loop selects another one. If the source has `asm volatile("# LLVM-MCA-BEGIN name")` and
`("# LLVM-MCA-END")`, best under `#if defined(CPUACCEL_MCA)`, those regions are analyzed instead.

llvm-mca treats a region as straight-line code that always hits the L1 cache. Forward jumps inside
the loop count as not taken; --take .L3 omits the code that a jump to .L3 skips. LLVM's tables may
be wrong: compare the printed cycles per product instruction with measured ones.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
CPUS = ["znver4", "icelake-server", "sapphirerapids"]
PASSES = 200
VERSIONS = range(30, 15, -1)  # znver4 came with LLVM 16

FUNCTION = re.compile(r"^(?P<symbol>[A-Za-z_]\S*):.*?^\s*\.size\s+(?P=symbol),", re.M | re.S)
REGION = re.compile(r"# LLVM-MCA-BEGIN[ \t]*(\S*)\n(.*?)# LLVM-MCA-END", re.S)
LABEL = re.compile(r"(\.\w+):")
MNEMONIC = re.compile(r"\s+(?:\{vex\}\s+)?([a-z]\w*)")
JUMP = re.compile(r"\tj\w+\t(\.\w+)")
REGISTERS = {"zmm": 64, "ymm": 32, "xmm": 16}
DOTS = {"vpdpbusd": 1, "vpdpbusds": 1, "vpdpwssd": 2, "vpdpwssds": 2, "vpmaddwd": 2}  # bytes each


def output(command: list[str], directory: str = ".", text: str = "") -> str:
    """The output of ``command``; exits with its error message if it fails."""
    done = subprocess.run(command, cwd=directory, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{pathlib.Path(sys.argv[0]).stem}: {' '.join(command)}:\n{done.stderr}")
    return done.stdout


@dataclass
class Loop:
    """A piece of assembly for llvm-mca."""

    symbol: str
    name: str
    lines: list[str]

    def __str__(self) -> str:
        where = self.symbol.replace("(anonymous namespace)::", "").partition("(")[0]
        counts = f"{len(self.instructions())} instructions, {self.vectors()} on vectors"
        return f"{self.name}, {counts}, {self.products()} products, in {where}"

    def instructions(self) -> list[tuple[str, str]]:
        """(mnemonic, line) of each line that is neither label, directive nor comment."""
        return [(match[1], line) for line in self.lines if (match := MNEMONIC.match(line))]

    def products(self) -> int:
        """Integer multiplications of one pass."""
        dots = ((name, line) for name, line in self.instructions() if name in DOTS)
        return sum(REGISTERS[re.findall("[xyz]mm", line)[0]] // DOTS[name] for name, line in dots)

    def vectors(self) -> int:
        """Instructions on vector registers."""
        return sum("mm" in line for _, line in self.instructions())


def assembly(source: pathlib.Path, build: pathlib.Path) -> str:
    """Compiles ``source`` with the flags of the kernels' build, which is configured if missing."""
    database = build / "compile_commands.json"
    if not database.exists():
        command = ["cmake", "-S", str(ROOT), "-B", str(build), "-DCPUACCEL_KERNELS_ONLY=ON"]
        output(command)
    known = {pathlib.Path(entry["file"]): entry for entry in json.loads(database.read_text())}
    if source.resolve() not in known:
        raise SystemExit(f"mca: {source} is not among the sources of the build in {build}")
    entry = known[source.resolve()]
    command = [*shlex.split(entry["command"]), "-S", "-DCPUACCEL_MCA"]
    command[command.index("-o") + 1] = "-"
    return output(command, entry["directory"])


def innermost_loops(symbol: str, lines: list[str]) -> Iterator[Loop]:
    """The loops that contain no other loop: from a label to the last jump back to it."""
    begins = {match[1]: at for at, line in enumerate(lines) if (match := LABEL.match(line))}
    ends: dict[str, int] = {}
    for at, line in enumerate(lines):
        if (match := JUMP.match(line)) and begins.get(match[1], at) < at:
            ends[match[1]] = at
    spans = {label: range(begins[label], end + 1) for label, end in ends.items()}
    for label, span in spans.items():
        if not any(s != span and s[0] in span and s[-1] in span for s in spans.values()):
            yield Loop(symbol, label, lines[span[0] + 1 : span[-1] + 1])


def find_loops(text: str, wanted: str) -> list[Loop]:
    """Marked regions, or innermost loops, of functions whose demangled name contains ``wanted``."""
    loops: list[Loop] = []
    for match in FUNCTION.finditer(text):
        symbol = output(["c++filt", match["symbol"]]).strip()
        marked = [Loop(symbol, name, body.splitlines()) for name, body in REGION.findall(match[0])]
        if wanted in symbol:
            loops += marked or innermost_loops(symbol, match[0].splitlines())
    return loops


def without_skipped(loop: Loop, taken: list[str]) -> Loop:
    """``loop`` without the code that its jumps to the labels ``taken``, all further down, skip."""
    lines: list[str] = []
    until = ""
    for line in loop.lines:
        if line.startswith(until):
            lines.append(line)
            match = JUMP.match(line)
            until = f"{match[1]}:" if match and match[1] in taken else ""
    return Loop(loop.symbol, loop.name, lines)


def analyze(mca: str, loop: Loop, cpu: str) -> None:
    """Prints cycles per pass, the busiest ports and llvm-mca's bottlenecks."""
    instructions = loop.instructions()
    text = "".join(f"{line}\n" for _, line in instructions)
    command = [mca, "-mtriple=x86_64", f"-mcpu={cpu}", f"-iterations={PASSES}"]
    report = json.loads(output([*command, "-json"], text=text))
    region = report["CodeRegions"][0]
    summary = region["SummaryView"]
    cycles = summary["TotalCycles"] / PASSES
    print(f"{cpu}: {cycles:.2f} cycles per pass, {summary['BlockRThroughput']:.2f} by ports alone")
    print(f"  {summary['uOpsPerCycle']:.2f} of {summary['DispatchWidth']} uops per cycle", end=", ")
    print(f"{loop.products()} products, {loop.products() / cycles:.1f} per cycle")
    infos = region["InstructionInfoView"]["InstructionList"]
    known = {instructions[row["Instruction"]][0]: row for row in infos}
    for name, row in known.items():
        if name in DOTS:
            print(f"  {name}: one in {row['RThroughput']:.2f} cycles, latency {row['Latency']}")
    names = report["TargetInfo"]["Resources"]  # with units numbered by a control character
    rows = region["ResourcePressureView"]["ResourcePressureInfo"]
    totals = (row for row in rows if row["InstructionIndex"] == len(instructions))
    busy = sorted(totals, key=lambda row: -row["ResourceUsage"])[:8]
    ports = (f"{names[row['ResourceIndex']]} {row['ResourceUsage']:.2f}" for row in busy)
    print(re.sub(r"[\0-\x1f]", lambda unit: str(ord(unit[0])), f"  ports: {', '.join(ports)}"))
    limits = output([*command, "-bottleneck-analysis"], text=text)
    for line in re.findall(r"^(?:Cycles with| {2,}[RD-]).*\[ (?!0\.00%).*", limits, re.M):
        print(f"  {line}")


def find_mca() -> str:
    """llvm-mca from $LLVM_MCA, or the newest one on the PATH."""
    names = [os.environ.get("LLVM_MCA", ""), *(f"llvm-mca-{v}" for v in VERSIONS), "llvm-mca"]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    version = re.findall(r"LLVM version (\d+)", output([found, "--version"])) if found else [0]
    if not found or int(version[0]) < min(VERSIONS):
        raise SystemExit("mca: no llvm-mca of LLVM 16 or newer; install llvm-19 or set LLVM_MCA")
    return found


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path, help="C++ source of a kernel")
    parser.add_argument("--symbol", default="", help="only functions whose name contains SYMBOL")
    parser.add_argument(
        "--cpu", action="append", help=f"CPU, as for -mcpu; may be repeated (default: {CPUS})"
    )
    parser.add_argument("--list", action="store_true", help="only list the loops")
    parser.add_argument("--loop", type=int, help="number of the loop in the list")
    parser.add_argument(
        "--take", action="append", default=[], help="label of a jump that is taken; may be repeated"
    )
    parser.add_argument("--print", action="store_true", help="print the loop's assembly")
    parser.add_argument(
        "--build", type=pathlib.Path, help="configured build folder (default: a new one)"
    )
    options = parser.parse_args()
    mca = find_mca()
    with tempfile.TemporaryDirectory() as name:
        text = assembly(options.source, options.build or pathlib.Path(name))
    loops = find_loops(text, options.symbol)
    if not loops:
        parser.error(f"no loop in a function with {options.symbol!r} in its name")
    if options.list:
        print(*(f"{number}: {loop}" for number, loop in enumerate(loops)), sep="\n")
        return
    hottest = max(loops, key=lambda loop: (loop.products(), loop.vectors()))
    picked = hottest if options.loop is None else loops[options.loop]
    print(f"{loops.index(picked)}: {picked}")
    loop = without_skipped(picked, options.take)
    if options.print:
        print("\n".join(loop.lines))
    for cpu in options.cpu or CPUS:
        analyze(mca, loop, cpu)


if __name__ == "__main__":
    main()
