"""Runs a process on simulated cores: `simulated_openmp.cpp` says how.

The library is compiled with the C++ compiler of this machine and loaded with LD_PRELOAD.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("simulated_openmp.cpp")


# Much longer than what runs between two regions, but so short that a call does not seem to take
# seconds, after which the allocator gives memory back.
COUNTED_US = 20_000.0


class Cost(IntEnum):
    """What a parallel region costs on the simulated clock."""

    MEASURED = 0
    """Its longest share in this run, and a barrier."""
    LONGEST = 1
    """The longest of its shares, of which each is the fastest of the recorded calls."""
    MEAN = 2
    """The mean of its shares."""
    COUNTED = 3
    """COUNTED_US, so that a time shows how many regions it has."""


def compiler() -> str | None:
    """The C++ compiler, or None."""
    return shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")


def build(folder: Path) -> Path:
    """Compiles the library into `folder`.

    Raises:
        RuntimeError: there is no C++ compiler, or it fails.
    """
    found = compiler()
    if found is None:
        raise RuntimeError("no C++ compiler: set CXX")
    library = folder / "libsimulated_openmp.so"
    arguments = ["-std=c++20", "-O2", "-fPIC", "-shared", "-pthread", str(SOURCE), "-ldl"]
    done = subprocess.run([found, *arguments, "-o", str(library)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{found} cannot compile {SOURCE.name}:\n{done.stderr}")
    return library


def environment(library: Path, tuning_cache: Path) -> Mapping[str, str]:
    """Environment of a process that loads `library`.

    Teams are off, because their threads wait for one another. Choices that are timed on simulated
    cores go to a tuning cache of their own.
    """
    return {
        "LD_PRELOAD": str(library),
        "CPUACCEL_TEAMS": "0",
        "CPUACCEL_RANKS": str(tuning_cache),
    }


class Simulation:
    """Controls the simulation in a process that `environment` has loaded the library into."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.simulation_start.argtypes = [ctypes.c_double]
        self._library.simulation_line_nanoseconds.restype = ctypes.c_double
        self._library.simulation_regions.restype = ctypes.c_long
        self._library.simulation_unsupported.restype = ctypes.c_long

    def line_microseconds(self) -> float:
        """Time in which a cache line moves from one core of this machine to another."""
        return float(self._library.simulation_line_nanoseconds()) / 1e3

    def start(self, threads: int, barrier_us: float) -> None:
        """From now on, parallel regions of this thread run on `threads` simulated cores."""
        self._library.simulation_start(1e3 * barrier_us)
        torch.set_num_threads(threads)

    def stop(self) -> None:
        """From now on, parallel regions run on real threads."""
        self._library.simulation_stop()

    def call(self, cost: Cost, *, noting: bool = False, only: int = -1) -> None:
        """Announces a call. Its regions are recorded, or charged from records of earlier calls.

        With `only`, the shares of that thread alone run. Caches then hold what the caches of its
        core would hold. The call computes nothing useful: most of each result is of earlier calls.
        """
        self._library.simulation_call(int(noting), int(cost), only)

    def regions(self) -> int:
        """The number of parallel regions since `call`."""
        return int(self._library.simulation_regions())

    def unsupported(self) -> int:
        """How often OpenMP was asked for what shares in turn cannot do, such as a barrier."""
        return int(self._library.simulation_unsupported())
