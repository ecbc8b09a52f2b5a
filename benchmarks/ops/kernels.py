"""Times every row of the kernel lists, without torch, against this machine's peaks.

Builds `benchmarks/cpp` in build/benchmarks, runs it and prints the results. Each row is compared
with the machine's peak and, if its family has one, with the bound of its whole loop. The peaks are
measured in the same rounds.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks import _machine
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser, names
from benchmarks._report import print_header
from benchmarks.ops._kernel_results import KernelResult, by_family, read, table_of

_ROOT = Path(__file__).resolve().parents[2]
_BUILD = _ROOT / "build" / "benchmarks"
_TARGET = "cpuaccel_bench"
_CONFIGURATION = ("KERNELS_ONLY=ON", "BENCHMARKS=ON", "TESTS=OFF")
_JOBS = "2"


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, builds, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    program = _build()
    results = by_family(_run(program, options))
    facts = {**_machine.describe(), "threads": str(options.threads)}
    console = _machine.console()
    print_header(console, "kernels", facts)
    for family, rows in results.items():
        console.print(f"[bold]{family}[/bold]")
        console.print(table_of(rows))
    if options.json:
        _write(options.json, facts, results)


def _build() -> Path:
    """Path of the program, rebuilt if its sources changed."""
    if shutil.which("cmake") is None:
        raise SystemExit("cmake is not on the PATH; the kernel benchmark needs it to build")
    settings = [f"-DCPUACCEL_{setting}" for setting in _CONFIGURATION]
    Console(stderr=True).print(f"building {_TARGET} in {_BUILD.relative_to(_ROOT)}")
    _call("cmake", "-S", str(_ROOT), "-B", str(_BUILD), "-DCMAKE_BUILD_TYPE=Release", *settings)
    _call("cmake", "--build", str(_BUILD), "--target", _TARGET, "--parallel", _JOBS)
    return _BUILD / "benchmarks" / "cpp" / _TARGET


def _call(*command: str) -> None:
    """Runs one step of the build; if it fails, exits with its output."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")


def _run(program: Path, options: argparse.Namespace) -> list[KernelResult]:
    """Runs `program` with `options` and returns its results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        command = [str(program), "--quiet", "--csv", str(path)]
        for name in ("family", "filter", "threads", "rounds", "budget"):
            command += [f"--{name}", str(getattr(options, name))]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            reason = done.stderr.partition("\n")[0]
            raise SystemExit(reason or f"{program.name} failed with exit code {done.returncode}")
        return read(path.read_text().splitlines())


def _write(path: Path, facts: dict[str, str], results: dict[str, list[KernelResult]]) -> None:
    document = {
        "machine": facts,
        "families": {name: [row.to_dict() for row in rows] for name, rows in results.items()},
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--family",
        type=lambda text: ",".join(names(text)),
        default="",
        metavar="A,B",
        help="kernel families to run (default: all)",
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="only shapes whose text contains TEXT"
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=15, budget=2.0, of="a shape")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
