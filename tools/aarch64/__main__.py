"""Builds cpuaccel for aarch64 on an x86 Debian 12, and runs Python with it under emulation.

    python tools/aarch64 build
    python tools/aarch64 run [--core graviton3] [--count] [-m] PROGRAM [ARGUMENT ...]

All files are in build/aarch64, or in $CPUACCEL_AARCH64. Downloads are reused.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import machine
import site_packages
import sysroot


def main() -> int:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(prog="aarch64", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="download, cross-build the wheel and install it")
    run = commands.add_parser("run", help="run Python with the built wheel under emulation")
    run.add_argument(
        "--core",
        choices=machine.CORES,
        default="graviton3",
        help="core to emulate (default: graviton3)",
    )
    run.add_argument("--count", action="store_true", help="count instructions for benchmarks/arm")
    options, arguments = parser.parse_known_args()  # the rest is python3.11's
    if arguments and options.command != "run":
        parser.error(f"unrecognized arguments: {' '.join(arguments)}")
    directory = Path(os.environ.get("CPUACCEL_AARCH64", site_packages.ROOT / "build/aarch64"))
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if options.command == "build":
        machine.install()
        root, site = sysroot.unpack(directory), site_packages.install(directory)
        wheel = site_packages.build_wheel(directory, root, site)
        site_packages.add_wheel(wheel, directory)
        print(wheel)
        return 0
    if not (directory / "package").is_dir():
        raise SystemExit(
            f"aarch64: no build in {directory}; run `python tools/aarch64 build` first"
        )
    counted = site_packages.build_counter(directory) if options.count else None
    return subprocess.call(_command(directory, options.core, counted, arguments))


def _command(directory: Path, core: str, counter: Path | None, arguments: list[str]) -> list[str]:
    root, site, package = (directory / each for each in ("sysroot", "site", "package"))
    variables = {
        "PYTHONHOME": f"{root}/usr",
        "PYTHONPATH": f"{package}:{site}",
        "LD_LIBRARY_PATH": f"{site}/torch/lib:{site}/torch.libs",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Inductor's compiler runs outside of the emulation. Compile workers are off, because the
        # system cannot execute the emulated Python. The test of vector ISAs would start one too.
        "CXX": str(site_packages.write_compiler(directory, root)),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        # A cache of one core is invalid for another, and Inductor's keys do not tell the cores
        # apart here.
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor" / core),
    }
    plugin = []
    if counter is not None:
        variables["CPUACCEL_INSTRUCTIONS"] = out = str(directory / "instructions.txt")
        plugin = ["-plugin", f"{counter},out={out}"]
    settings = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    program = str(root / "usr/bin/python3.11")
    return ["qemu-aarch64", "-cpu", machine.CORES[core], *plugin, "-L", str(root), *settings,
            program, *arguments]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
