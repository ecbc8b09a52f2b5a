"""What memory a process has, and how much of it other processes have too."""

from dataclasses import dataclass
from pathlib import Path

_MIB = 1024


@dataclass(frozen=True)
class Memory:
    """MiB of a process's pages that are in memory.

    `proportional` counts a page of n processes as its nth part (Pss), so that the sum over
    processes is what they need together; `anonymous` is the part of it that is of no file, so
    not the code of libraries. `private` is of this process alone, `shared` is not.
    """

    resident: float
    proportional: float
    anonymous: float
    private: float
    shared: float


def parse(rollup: str) -> Memory:
    """Reads what /proc/PID/smaps_rollup says.

    Raises:
        ValueError: a line is missing.
    """
    kib: dict[str, int] = {}
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            kib[name] = int(words[0])

    def mib(*names: str) -> float:
        for name in names:
            if name not in kib:
                raise ValueError(f"smaps_rollup: expected a line {name!r}, got {sorted(kib)}")
        return sum(kib[name] for name in names) / _MIB

    return Memory(
        resident=mib("Rss"),
        proportional=mib("Pss"),
        anonymous=mib("Pss_Anon"),
        private=mib("Private_Clean", "Private_Dirty"),
        shared=mib("Shared_Clean", "Shared_Dirty"),
    )


def of(pid: int) -> Memory:
    """Of a process of this user."""
    return parse(Path(f"/proc/{pid}/smaps_rollup").read_text())


def threads(pid: int) -> int:
    """How many threads the process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
