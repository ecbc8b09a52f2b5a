"""Summarizes results of single ops by class, channels and size, to derive provider rules."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from rich.table import Table

from benchmarks._report import Ratio, Row, geomean, show_ratio
from benchmarks.ops._qops import Operation

_CHANNEL_STEPS = (8, 32, 128, 512)
_AREA_STEPS = (1, 196, 784)
_ROW_STEPS = (1, 8, 32)


@dataclass(frozen=True)
class Group:
    """Ops of one bucket. Ratios are speeds: above 1 the subject is faster."""

    kind: str
    channels: str
    aligned: str
    area: str
    count: int
    wins: int
    geomean: float
    worst: float
    best: float

    def to_dict(self) -> dict[str, object]:
        """The group for JSON."""
        return asdict(self)


Key = tuple[str, str, str, str]


def by_kind(operation: Operation) -> Key:
    """One bucket for each class."""
    return operation.kind, "", "", ""


def by_shape(operation: Operation) -> Key:
    """One bucket for each class, range of channels, channel alignment and range of output size."""
    if operation.kind.startswith("linear"):
        channels = _bucket(operation.channels, _CHANNEL_STEPS)
        return operation.kind, channels, "", "M " + _bucket(operation.area, _ROW_STEPS)
    aligned = next((str(n) for n in (16, 8, 4) if operation.channels % n == 0), "no")
    return (
        operation.kind,
        _bucket(operation.channels, _CHANNEL_STEPS),
        aligned,
        _bucket(operation.area, _AREA_STEPS),
    )


def summarize(
    pairs: Iterable[tuple[Operation, Row]], ratio: Ratio, key: Callable[[Operation], Key]
) -> list[Group]:
    """Groups of the ops that have `ratio`, sorted by class, then by smallest channels and area."""
    buckets: dict[Key, list[float]] = {}
    order: dict[Key, tuple[object, ...]] = {}
    for operation, row in pairs:
        value = ratio.of(row.samples)
        if value is not None:
            name = key(operation)
            buckets.setdefault(name, []).append(value)
            place = (operation.kind, operation.channels, operation.area)
            order[name] = min(order.get(name, place), place)
    return [
        _group(name, buckets[name])
        for name in sorted(buckets, key=lambda name: (name[0], order[name]))
    ]


def table_of(groups: list[Group]) -> Table:
    """`groups` for the terminal."""
    table = Table()
    named = {
        "class": any(group.kind for group in groups),
        "channels": any(group.channels for group in groups),
        "multiple of": any(group.aligned for group in groups),
        "output": any(group.area for group in groups),
    }
    for heading, used in named.items():
        if used:
            table.add_column(heading, no_wrap=True)
    for heading in ("shapes", "faster", "geomean", "worst", "best"):
        table.add_column(heading, justify="right")
    for group in groups:
        speeds = (group.geomean, group.worst, group.best)
        names = (group.kind, group.channels, group.aligned, group.area)
        table.add_row(
            *(name for name, used in zip(names, named.values(), strict=True) if used),
            *(str(group.count), str(group.wins)),
            *(show_ratio(speed) for speed in speeds),
        )
    return table


def _group(name: Key, values: list[float]) -> Group:
    wins = sum(value > 1 for value in values)
    return Group(*name, len(values), wins, geomean(values) or 0.0, min(values), max(values))


def _bucket(value: int, steps: tuple[int, ...]) -> str:
    """The range between two of `steps` that `value` is in, such as "65-128"."""
    low = 1
    for step in steps:
        if value <= step:
            return str(step) if low == step else f"{low}-{step}"
        low = step + 1
    return f">={low}"
