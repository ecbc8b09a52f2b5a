"""Tests one wheel with every torch that it has a shim for, each in a fresh environment.

    python tools/torch_matrix.py build/dist/cpuaccel-0.1.0-cp311-cp311-*.whl

For each row of ENVIRONMENTS whose Python the wheel is for: makes a virtual environment in
build/matrix, installs torch, the packages of the tests and the wheel, measures what cpuaccel adds
to `import torch`, runs examples/digits_int8/demo.py, and runs the tests. Writes
build/matrix/NAME.json and prints the table of docs/support.md. A failed row does not stop the
others; the exit status is 1 at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "matrix"


@dataclasses.dataclass(frozen=True)
class Environment:
    """A Python and a torch, with the torchvision whose models the tests take."""

    python: str
    torch: str
    torchvision: str
    # PyPI has no torchvision for this torch: the models work, torchvision's compiled ops do not.
    without_ops: bool = False

    @property
    def name(self) -> str:
        return f"python{self.python}-torch{self.torch}"


ENVIRONMENTS = (
    Environment("3.11", "2.13.0", "0.28.0", without_ops=True),
    Environment("3.11", "2.14.1", "0.29.1"),
    Environment("3.11", "2.15.0", "0.29.2", without_ops=True),
    Environment("3.13", "2.14.1", "0.29.1"),
)

# The collection is of torch's objects; on Python 3.13 it would start in cpuaccel's import.
IMPORT_COST = """
import torch, gc, time, os, json
gc.collect()
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
before, start = resident(), time.process_time()
from cpuaccel._autoload import autoload
autoload()
took, grew = (time.process_time() - start) * 1e3, resident() - before
import cpuaccel
print(json.dumps([took, grew, cpuaccel.is_enabled(), torch.__version__]))
"""


def installed(environment: Environment, wheel: Path) -> Path:
    """Return the Python of a fresh environment with the packages of the tests and ``wheel``."""
    folder = FOLDER / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([f"python{environment.python}", "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    vision = f"torchvision=={environment.torchvision}"

    def install(*arguments: str | Path) -> None:
        # pip's own constraints may exclude a torch that the wheel supports.
        clean = os.environ | {"PIP_CONSTRAINT": os.devnull}
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *arguments], check=True, env=clean
        )

    install(f"torch=={environment.torch}", "numpy", *([] if environment.without_ops else [vision]))
    install("--requirement", ROOT / "requirements" / "test.txt")
    alone = ["--requirement", str(ROOT / "requirements" / "test_no_deps.txt")]
    install("--no-deps", *alone, *([vision] if environment.without_ops else []))
    install(wheel)
    return python


def import_cost(python: Path) -> tuple[float, float]:
    """CPU milliseconds and MiB that cpuaccel adds to `import torch`: the least of five runs."""
    runs = []
    for _ in range(5):
        done = subprocess.run(
            [python, "-c", IMPORT_COST], capture_output=True, text=True, check=True, cwd=FOLDER,
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )  # fmt: skip
        milliseconds, mebibytes, enabled, torch = json.loads(done.stdout)
        if not enabled:
            raise RuntimeError(f"cpuaccel is off with torch {torch}: {done.stderr}")
        runs.append((milliseconds, mebibytes))
    return min(run[0] for run in runs), min(run[1] for run in runs)


def counts(log: str) -> dict[str, int]:
    """The numbers in pytest's last line: passed, failed, skipped, ..."""
    lines = re.findall(r"^=* ?((?:\d+ \w+,? ?)+) in [\d.]+s.*$", log, re.MULTILINE)
    return {what: int(n) for n, what in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}


def run(environment: Environment, wheel: Path, jobs: int, tests: list[str]) -> dict[str, object]:
    """Test ``wheel`` in ``environment`` and return the row."""
    start = time.monotonic()
    python = installed(environment, wheel)
    milliseconds, mebibytes = import_cost(python)
    demo = subprocess.run([python, ROOT / "examples/digits_int8/demo.py"], cwd=ROOT, check=False)
    log = FOLDER / f"{environment.name}.log"
    with log.open("w") as out:
        suite = subprocess.run(
            [python, "-m", "pytest", "--numprocesses", str(jobs), "-p", "no:cacheprovider", *tests],
            cwd=ROOT, check=False, stdout=out, stderr=subprocess.STDOUT,
            env=os.environ | {"CPUACCEL_TEST_TIER": "small", "CI": "1"},
        )  # fmt: skip
    return {
        "name": environment.name,
        "python": environment.python,
        "torch": environment.torch,
        "import_ms": round(milliseconds, 1),
        "import_mib": round(mebibytes, 1),
        "demo": demo.returncode == 0,
        "suite": suite.returncode,
        "counts": counts(log.read_text(errors="replace")),
        "minutes": round((time.monotonic() - start) / 60, 1),
    }


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown, for docs/support.md."""
    lines = [
        "| torch | Python | `import torch` | demo | tests |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        numbers = row["counts"]
        assert isinstance(numbers, dict)
        tests = ", ".join(f"{n} {what}" for what, n in numbers.items()) or "ended early"
        cost = f"+{row['import_ms']} ms, +{row['import_mib']} MiB"
        demo = "passes" if row["demo"] else "fails"
        lines.append(f"| {row['torch']} | {row['python']} | {cost} | {demo} | {tests} |")
    return "\n".join(lines)


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=Path, help="wheels, one for each Python")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="*", default=[], help="tests to run; all by default")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    for environment in ENVIRONMENTS:
        tag = f"-cp{environment.python.replace('.', '')}-"
        wheels = [wheel.resolve() for wheel in arguments.wheels if tag in wheel.name]
        if not wheels or arguments.only not in environment.name:
            continue
        print(f"== {environment.name}", flush=True)
        row = run(environment, wheels[0], arguments.jobs, arguments.tests)
        (FOLDER / f"{environment.name}.json").write_text(json.dumps(row, indent=2))
        rows.append(row)
    print(table(rows))
    if not rows or any(row["suite"] != 0 or not row["demo"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
