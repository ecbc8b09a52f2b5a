"""Reads a process's memory use from /proc: private, shared and proportional."""

from dataclasses import dataclass
from pathlib import Path

_MIB = 1024


@dataclass(frozen=True)
class Memory:
    """MiB of a process's resident pages.

    `proportional` counts a page of n processes as its nth part (Pss), so its sum over processes is
    what they need together. `anonymous` is the part of it that belongs to no file, so not to the
    code of libraries. `private` belongs to this process alone, `shared` does not.
    """

    resident: float
    proportional: float
    anonymous: float
    private: float
    shared: float


def parse(rollup: str) -> Memory:
    """Parses the text of /proc/PID/smaps_rollup.

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
    """The memory of a process of this user."""
    return parse(Path(f"/proc/{pid}/smaps_rollup").read_text())


def threads(pid: int) -> int:
    """The number of threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
