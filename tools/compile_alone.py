"""Compiles each file of csrc that belongs to a unit alone, without writing objects.

    python tools/compile_alone.py BUILD [--jobs N]

The default build compiles these files in units (cmake/Units.cmake), where a file can use what
another file of its unit includes or defines. BUILD is a directory that was configured with
-DCPUACCEL_UNITS=OFF.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FOLDERS = ("torch_ao", "fbgemm", "ops", "quant", "plan", "dnnl")
PRECOMPILED_HEADER = "cmake_pch.hxx.cxx"


def commands(build: pathlib.Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Returns the entries of compile_commands.json for precompiled headers and for sources."""
    csrc = pathlib.Path(__file__).resolve().parents[1] / "csrc"
    headers, sources = [], []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if file.name == PRECOMPILED_HEADER:
            headers.append(entry)
        elif any(file.is_relative_to(csrc / folder) for folder in FOLDERS):
            sources.append(entry)
    return headers, sources


def compile_one(entry: dict[str, str], *, syntax_only: bool) -> str:
    """Runs the command of ``entry`` and returns the compiler's messages, empty if it succeeds."""
    command = shlex.split(entry["command"])
    if syntax_only:
        at = command.index("-o")
        command[at : at + 2] = ["-fsyntax-only"]
    run = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return f"{entry['file']}:\n{run.stderr}" if run.returncode else ""


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="configured with -DCPUACCEL_UNITS=OFF")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of compilers")
    arguments = parser.parse_args()
    headers, sources = commands(arguments.build)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        errors = list(pool.map(lambda entry: compile_one(entry, syntax_only=False), headers))
        errors += pool.map(lambda entry: compile_one(entry, syntax_only=True), sources)
    failed = [error for error in errors if error]
    print("\n".join(failed) or f"each of {len(sources)} files compiles alone")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
