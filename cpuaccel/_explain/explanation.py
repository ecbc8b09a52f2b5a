"""Explanation, the result of `explain`: its rows, and how they print."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field

from cpuaccel._explain.plan_steps import Plan
from cpuaccel._explain.text_table import aligned


@dataclass(frozen=True)
class Row:
    """What runs one layer, or one op that has no layer."""

    layer: str
    """Path in the model, such as `layer1.0.conv1`; empty for the model itself."""
    op: str
    """Op of torch that the layer calls, such as `quantized::conv2d_relu`."""
    provider: str
    """Library that runs it: cpuaccel, onednn, fbgemm, intree or torch."""
    kernel: str = ""
    """Implementation inside the library, if the library names it."""
    reason: str = ""
    """The reason for this provider."""
    note: str = ""
    """A remark, such as a risk of saturation or the reason for a fallback."""
    problem: str = ""
    """Shape and kind of the weights, such as `s8 64x64x3x3 s1 p1 g1 per_channel`."""
    calls: int = 0
    """How often it ran on cpuaccel."""
    packed_bytes: int = 0
    """Memory of its packed weights in cpuaccel."""
    fused: bool = False
    """Whether `cpuaccel.quant.fuse` fused it from several ops, all of which `op` names."""
    microseconds: float = 0.0
    """Median time of a call, for weights by groups, if example inputs were given."""
    gigabytes: float = 0.0
    """10^9 bytes read and written a second; its weights count in packed bytes."""
    of_bound: float = 0.0
    """The least time that this machine needs, divided by the time (as `Step.of_bound`)."""


COLUMNS = (
    *("layer", "op", "provider", "kernel", "problem", "calls"),
    *("microseconds", "gigabytes", "of_bound", "reason", "note"),
)
"""Fields of a row that are printed, in order. A column that is empty in all rows is left out."""


@dataclass(frozen=True)
class Explanation:
    """Which library runs each layer of a model. Prints as a table."""

    rows: list[Row] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)
    """Counters of the process and notes on the machine, one sentence each."""
    plans: tuple[Plan, ...] = ()
    """Measured steps of each plan, if example inputs were given."""

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the header and the lines of the table, as text."""
        lines = [tuple(_text(getattr(row, name)) for name in COLUMNS) for row in self.rows]
        used = [i for i in range(len(COLUMNS)) if i == 0 or any(line[i] for line in lines)]
        return (
            tuple(COLUMNS[i] for i in used),
            [tuple(line[i] for i in used) for line in lines],
        )

    def __str__(self) -> str:
        header, lines = self.cells()
        table = aligned(header, lines) if lines else "cpuaccel knows no layer of this model."
        plans = [line for plan in self.plans for line in (str(plan), "")]
        return "\n".join([table, "", *plans, *self.footer])

    def _repr_html_(self) -> str:
        header, lines = self.cells()
        body = "".join(_html_line("td", line) for line in lines)
        plans = "".join(f"<pre>{html.escape(str(plan))}</pre>" for plan in self.plans)
        footer = "".join(f"<p>{html.escape(line)}</p>" for line in self.footer)
        return f"<table>{_html_line('th', header)}{body}</table>{plans}{footer}"


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value else ""
    return str(value) if value != 0 else ""


def _html_line(tag: str, line: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) + "</tr>"
