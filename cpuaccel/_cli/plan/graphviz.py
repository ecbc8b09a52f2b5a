"""Draws a plan as SVG. Graphviz, which comes with pygraphviz, does the layout."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cpuaccel._cli.plan.drawing import Drawing, Node

_SCHEME, _SHADES = "orrd9", 9
"""A Brewer color scale that Graphviz has, from pale to dark red."""
_DARK = 7
"""From this shade on text is white."""
_FONT = "Helvetica"
_STRAIGHT = 4
"""Weight of an edge that should be straight; other edges have 1."""


class MissingLibrary(RuntimeError):
    """The library that draws is not installed."""


def check() -> None:
    """Raise MissingLibrary if nothing can be drawn; the message says what to install."""
    _pygraphviz()


def svg_of(drawing: Drawing, title: Sequence[str]) -> str:
    """Return the text of an SVG of the drawing, with `title` above it.

    Raises:
        MissingLibrary: pygraphviz is not installed.
        ValueError: Graphviz cannot lay it out.
    """
    graph = _pygraphviz().AGraph(directed=True, strict=False, rankdir="TB", name="plan")
    most = max((node.share for node in drawing.boxes() if node.share is not None), default=None)
    # dot's own quotes are the angle brackets: a label in them is HTML.
    graph.graph_attr.update(
        label=f"<{_heading(title, most)}>", labelloc="t", fontname=_FONT, fontsize="12",
        ranksep="0.25", nodesep="0.3", compound="true", bgcolor="white", tooltip=title[0],
    )  # fmt: skip
    graph.node_attr.update(
        shape="box", style="filled,rounded", colorscheme=_SCHEME, fillcolor="white",
        color="#999999", fontname=_FONT, fontsize="11", margin="0.12,0.06",
    )  # fmt: skip
    graph.edge_attr.update(
        fontname=_FONT, fontsize="9", color="#666666", fontcolor="#444444", arrowsize="0.6"
    )
    for number, each in enumerate(drawing.nodes):
        if isinstance(each, Node):
            _add(graph, each, most)
            continue
        for node in each.nodes:
            _add(graph, node, most)
        graph.add_subgraph(
            [node.name for node in each.nodes], name=f"cluster{number}",
            label="".join(f"{line}\\l" for line in each.title),  # \\l left-aligns the line
            style="rounded,filled", fillcolor="#f3f6fa", color="#8aa0b8", labeljust="l",
            fontname=_FONT, fontsize="9", tooltip="; ".join(each.title),
        )  # fmt: skip
    readers = Counter(edge.source for edge in drawing.edges)
    for edge in drawing.edges:
        # A node with one reader is placed above it, so that a chain of regions goes straight down.
        weight = _STRAIGHT if readers[edge.source] == 1 else 1
        # The spaces keep the text off the line.
        label = f" {edge.tensor} "
        graph.add_edge(
            edge.source, edge.target, label=label, tooltip=edge.tensor, weight=str(weight)
        )
    rendered: bytes = graph.draw(format="svg", prog="dot")
    return rendered.decode("utf-8")


def _pygraphviz() -> Any:
    try:
        import pygraphviz
    except ImportError as error:
        raise MissingLibrary(
            f"drawing needs pygraphviz: pip install 'cpuaccel[plot]' ({error})"
        ) from error
    return pygraphviz


def _add(graph: Any, node: Node, most: float | None) -> None:
    shape = {"shape": "ellipse", "fillcolor": "#dfe7f1"} if node.is_end else {}
    if node.share is not None and most:
        shade = _shade(node.share, most)
        shape = {"fillcolor": str(shade)}
        if shade >= _DARK:
            shape["fontcolor"] = "white"
    graph.add_node(
        node.name,
        label=f"<{_lines([f'<B>{html.escape(node.title)}</B>', *map(_small, node.lines)])}>",
        tooltip="; ".join((node.title, *node.lines)),
        **shape,
    )


def _shade(share: float, most: float) -> int:
    return max(1, min(_SHADES, 1 + int(_SHADES * share / most)))


def _small(line: str) -> str:
    return f'<FONT POINT-SIZE="9">{html.escape(line)}</FONT>'


def _lines(lines: Iterable[str]) -> str:
    return "<BR/>".join(lines)


def _heading(title: Sequence[str], most: float | None) -> str:
    """Return a Graphviz table: the title, and a legend of the colors."""
    first, *rest = title
    rows = [f'<TR><TD><FONT POINT-SIZE="16"><B>{html.escape(first)}</B></FONT></TD></TR>']
    rows += [f"<TR><TD>{html.escape(line)}</TD></TR>" for line in rest]
    if most:
        rows.append(f"<TR><TD>{_legend(most)}</TD></TR>")
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2">{"".join(rows)}</TABLE>'


def _legend(most: float) -> str:
    cells = "".join(
        f'<TD BGCOLOR="/{_SCHEME}/{shade}" WIDTH="44"><FONT POINT-SIZE="9" COLOR="'
        f'{"white" if shade >= _DARK else "black"}">{(shade - 1) / _SHADES * most:.1%}</FONT></TD>'
        for shade in range(1, _SHADES + 1)
    )
    return (
        '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="3"><TR>'
        f"<TD>share of the call's time, from: </TD>{cells}"
        '<TD> </TD><TD BORDER="1" COLOR="#999999" BGCOLOR="white">not timed</TD></TR></TABLE>'
    )
