"""The result of a case: cpuaccel's time and its speedup over each peer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks._report import geomean
from benchmarks.models.comparison.cases import AIMS, BOUND, Aim, Case
from benchmarks.models.comparison.columns import NAMES, PEERS

FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """A row of the table. `time` is that of cpuaccel's fastest column, `by` its name."""

    case: Case
    time: float | None
    """Median, milliseconds."""
    by: str
    peers: Mapping[str, float | str]
    """Median of each peer in milliseconds, or "failed"; peers that were not run are absent."""
    bound: float | None
    """Least time in milliseconds."""
    notes: tuple[str, ...]
    first: float | None = None
    """Seconds until the first result of column `by`: it captures or compiles, and runs."""

    def over(self, peer: str, of: str = "") -> float | str | None:
        """Speedup over `peer` of cpuaccel, or of the peer `of`; for the bound, the share of it."""
        base = self.bound if peer == BOUND else self.peers.get(peer)
        if base is None or isinstance(base, str):
            return base
        time = self.peers.get(of) if of else self.time or FAILED
        return base / time if isinstance(time, float) else time


def outcome(case: Case, result: Mapping[str, Any]) -> Outcome:
    """The row of a stored result of `case`."""
    if "error" in result:
        return Outcome(case, None, FAILED, {}, None, (f"{case}: failed: {result['error']}",))
    medians = {name: each["median_ms"] for name, each in result["times"].items()}
    times = {name: time for name, time in medians.items() if name not in PEERS}
    peers: dict[str, float | str] = {
        PEERS[name]: FAILED for name in result["failed"] if name in PEERS
    }
    peers |= {PEERS[name]: time for name, time in medians.items() if name in PEERS}
    best = min(times, key=times.__getitem__, default="")
    notes = [f"{case}: {name} failed: {why}" for name, why in result["failed"].items()]
    return Outcome(
        case,
        times.get(best),
        best or FAILED,
        peers,
        result["bound_ms"],
        (*notes, *result["notes"]),
        result.get("first_s", {}).get(best),
    )


@dataclass(frozen=True)
class Group:
    """Rows that are averaged."""

    rows: tuple[Outcome, ...]

    def values(self, peer: str, of: str = "") -> list[float]:
        """The speedups over `peer` of cpuaccel, or of the peer `of`, for the rows that have one."""
        return [each for row in self.rows if isinstance(each := row.over(peer, of), float)]

    def mean(self, peer: str, of: str = "") -> float | None:
        """The geometric mean of these speedups."""
        return geomean(self.values(peer, of))

    def lowest(self, peer: str) -> float | None:
        """The lowest speedup over `peer`."""
        return min(self.values(peer), default=None)

    def aim(self, peer: str) -> Aim | None:
        """The target over `peer`, if any."""
        kind, type_, _, _ = self.rows[0].case.group
        return next((each for each in AIMS.get((kind, type_), ()) if each.over == peer), None)

    def is_met(self, aim: Aim) -> bool:
        """Whether the group reaches the target; a group with a failed row does not."""
        mean, lowest = self.mean(aim.over), self.lowest(aim.over)
        if mean is None or lowest is None or len(self.values(aim.over)) < len(self.rows):
            return False
        return mean >= aim.mean and lowest >= aim.each


def groups(rows: Iterable[Outcome]) -> list[Group]:
    """The rows grouped by `Case.group`, in their order."""
    found: dict[tuple[str, str, int, int], list[Outcome]] = {}
    for row in rows:
        found.setdefault(row.case.group, []).append(row)
    return [Group(tuple(each)) for each in found.values()]


def present(rows: Iterable[Outcome]) -> list[str]:
    """The peers, and the bound, that any row has, in the order of the table."""
    rows = list(rows)
    return [name for name in (*NAMES, BOUND) if any(row.over(name) is not None for row in rows)]
