"""The drawing of a plan file: its ops and steps, and the tensors between them with their sizes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, Net, needs_onednn
from cpuaccel._cli.plan import graphviz
from cpuaccel._cli.plan.drawing import Cluster, Drawing, Edge, Node, drawing_of
from cpuaccel._cli.plan.timing import measure
from cpuaccel._explain import step_timing
from cpuaccel.compile.package import load

pytestmark = needs_onednn

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "_SECONDS", 0.02)


def _residual() -> nn.Module:
    torch.manual_seed(0)
    return Net(
        lambda self, x: torch.cumsum(F.relu(self.second(F.relu(self.first(x))) + x), 1),
        first=nn.Conv2d(8, 8, 3, padding=1),
        second=nn.Conv2d(8, 8, 1),
    ).eval()


def _saved(model: nn.Module, x: Tensor, path: Path) -> Path:
    cpuaccel.save(cpuaccel.optimize(model, (x,), time_budget=0), path)
    return path


def _drawn(path: Path, run: bool) -> Drawing:
    facts = load.read_facts(path)
    return drawing_of(facts["outline"], measure(cpuaccel.load(path)) if run else None)


def _paths(drawing: Drawing) -> Iterator[tuple[str, str, str]]:
    """Titles without numbers, for both ends of each tensor."""
    titles = {node.name: node.title.partition(". ")[2] or node.title for node in drawing.boxes()}
    for edge in drawing.edges:
        yield titles[edge.source], titles[edge.target], edge.tensor


_RESIDUAL = {
    ("input x", "Convolution+ReLU", "f32 2x8x6x6"),
    ("input x", "Convolution+Add+ReLU", "f32 2x8x6x6"),
    ("Convolution+ReLU", "Convolution+Add+ReLU", "f32 2x8x6x6"),
    ("Convolution+Add+ReLU", "cumsum", "f32 2x8x6x6"),
    ("cumsum", "result 0", "f32 2x8x6x6"),
}


def test_partitions_and_ops_and_the_tensors_between_them(tmp_path: Path) -> None:
    path = _saved(_residual(), torch.randn(2, 8, 6, 6), tmp_path / "net.pt2")
    drawing = _drawn(path, run=False)
    assert set(_paths(drawing)) == _RESIDUAL
    assert [type(each) for each in drawing.nodes] == [Node, Cluster, Node, Node]
    assert all(node.share is None for node in drawing.boxes())


def test_steps_that_were_run_are_drawn_with_their_copies(tmp_path: Path) -> None:
    path = _saved(_residual(), torch.randn(2, 8, 6, 6), tmp_path / "net.pt2")
    drawing = _drawn(path, run=True)
    found = set(_paths(drawing))
    without = {edge for edge in found if "copy" not in edge[:2]}
    assert without <= _RESIDUAL
    # Edges that are missing go through a copy.
    assert {target for _, target, _ in _RESIDUAL} <= {target for _, target, _ in found}
    assert {source for source, _, _ in _RESIDUAL} <= {source for source, _, _ in found}
    assert all((node.share or 0) > 0 for node in drawing.boxes() if not node.is_end)
    cluster = next(each for each in drawing.nodes if isinstance(each, Cluster))
    assert "us" in cluster.title[1]
    assert all(node.lines[0] for node in cluster.nodes), "a kernel"


def test_a_region_with_several_results(tmp_path: Path) -> None:
    def of(self: Net, x: Tensor) -> Tensor:
        a, b = self.first(x), self.second(x)
        return torch.cumsum(a, 1), torch.cumprod(b, 1)

    model = Net(of, first=nn.Linear(8, 4), second=nn.Linear(8, 6)).eval()
    path = _saved(model, torch.randn(5, 8), tmp_path / "net.pt2")
    found = set(_paths(_drawn(path, run=False)))
    assert {
        ("MatMul", "cumsum", "f32 5x4"),
        ("MatMul", "cumprod", "f32 5x6"),
        ("cumsum", "result 0", "f32 5x4"),
        ("cumprod", "result 1", "f32 5x6"),
    } <= found


def test_views_are_followed_to_their_sources(tmp_path: Path) -> None:
    model = Net(
        lambda self, x: self.head(self.conv(x).flatten(1)),
        conv=nn.Conv2d(3, 4, 3),
        head=nn.Linear(4 * 4 * 4, 5),
    ).eval()
    path = _saved(model, torch.randn(2, 3, 6, 6), tmp_path / "net.pt2")
    for run in (False, True):
        drawing = _drawn(path, run)
        edges = {(edge.source, edge.target) for edge in drawing.edges}
        # The input is connected to the result.
        reached = {next(node.name for node in drawing.boxes() if node.is_end)}
        while more := {target for source, target in edges if source in reached} - reached:
            reached |= more
        assert reached == {node.name for node in drawing.boxes()}


def test_a_graph_with_branches(tmp_path: Path) -> None:
    def of(self: Net, x: Tensor) -> Tensor:
        y = self.conv(x)
        return torch.cond(x.sum() > 0, torch.relu, torch.neg, (y,))

    model = Lambda(of, conv=nn.Conv2d(3, 4, 3)).eval()
    path = _saved(model, torch.randn(2, 3, 6, 6), tmp_path / "net.pt2")
    for run in (False, True):
        found = {(source, target) for source, target, _ in _paths(_drawn(path, run))}
        assert {("Convolution", "cond"), ("gt.Scalar", "cond"), ("cond", "result 0")} <= found, (
            found
        )


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return torch.cumsum(x, 1) * self.calls


def test_mutated_buffers_are_no_results(tmp_path: Path) -> None:
    path = _saved(_Counting().eval(), torch.randn(2, 3), tmp_path / "net.pt2")
    drawing = _drawn(path, run=False)
    assert [node.title for node in drawing.boxes() if node.is_end] == ["input x", "result 0"]
    assert ("cumsum", "mul.Tensor", "f32 2x3") in set(_paths(drawing))


def _text(element: ET.Element) -> str:
    return " ".join("".join(each.itertext()).strip() for each in element.iter(f"{_SVG}text"))


def _groups(root: ET.Element, kind: str) -> list[ET.Element]:
    return [each for each in root.iter(f"{_SVG}g") if each.get("class") == kind]


def test_all_of_a_drawing_is_in_the_svg() -> None:
    pytest.importorskip("pygraphviz", reason="the extra cpuaccel[plot] is not installed")
    step = Node("a", "1. Mat<Mul> & more", ('kernel "x"', "10.0 us"), share=0.5)
    small = Node("b", "2. view", share=0.001)
    drawing = Drawing(
        [
            Node("in", "input x", is_end=True),
            Cluster(("plan 12", "<10.5> us"), (step, small)),
            Node("c", "cumsum"),
        ],
        [Edge("in", "a", "f32 1x2"), Edge("a", "b", "u8 <3>"), Edge("b", "c", "u8 scalar")],
    )
    root = ET.fromstring(graphviz.svg_of(drawing, ("net <1>.pt2", "call: (x)")))
    nodes = {each.findtext(f"{_SVG}title"): each for each in _groups(root, "node")}
    assert {name: _text(each) for name, each in nodes.items()} == {
        "in": "input x",
        "a": '1. Mat<Mul> & more kernel "x" 10.0 us',
        "b": "2. view",
        "c": "cumsum",
    }
    assert [_text(each) for each in _groups(root, "edge")] == ["f32 1x2", "u8 <3>", "u8 scalar"]
    assert [_text(each) for each in _groups(root, "cluster")] == ["plan 12 <10.5> us"]
    heading = _text(root)
    for words in ("net <1>.pt2", "call: (x)", "share of the call's time", "not timed"):
        assert words in heading
    fills = {
        name: each.find(f".//{_SVG}path").get("fill")
        for name, each in nodes.items()
        if name in "abc"
    }
    assert len(set(fills.values())) == 3, fills
    assert fills["c"] == "white"


def test_without_times_there_is_no_legend() -> None:
    pytest.importorskip("pygraphviz", reason="the extra cpuaccel[plot] is not installed")
    root = ET.fromstring(graphviz.svg_of(Drawing([Node("c", "cumsum")]), ("net.pt2",)))
    assert "share" not in _text(root)
