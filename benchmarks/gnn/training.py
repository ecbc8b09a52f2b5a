"""Times training steps of torch_geometric's layers on a full graph: forward, backward and Adam.

There are four columns: torch alone; torch with cpuaccel's allocator only, which separates the gain
of the allocator; cpuaccel with an unchanged model; and cpuaccel after `cpuaccel.gnn.accelerate`.
Each trains its own two-layer model from the same weights on the same graph (R-MAT, shuffled ids).
The peak memory counts tensors of at least half a megabyte in one step, beyond what was allocated
before it. Needs torch_geometric.
"""

import argparse
import copy
import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_json,
    add_rounds,
    add_threads,
    make_parser,
    names,
    positive,
    require_known,
)
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Contender, side_by_side
from benchmarks.gnn import _shared
from benchmarks.gnn._graphs import GRAPHS, ends_of, graph_of

_CLASSES = 16
_HEADS = 8
_RELATIONS = 8


def _layer(name: str, features: int, size: int, degrees: Tensor) -> nn.Module:
    """A layer. `degrees` counts the nodes with 0, 1, 2 ... edges, which PNA scales by."""
    pyg: Any = importlib.import_module("torch_geometric.nn")
    if name == "PNA":
        aggregations = ["mean", "min", "max", "std"]
        scalers = ["identity", "amplification", "attenuation"]
        return pyg.PNAConv(features, size, aggregations, scalers, degrees)
    if name == "RGCN":
        return pyg.RGCNConv(features, size, _RELATIONS)
    if name.startswith("EdgeConv"):
        first = nn.Linear(2 * features, size)
        second = [nn.Linear(size, size)] if name == "EdgeConv MLP" else []
        return pyg.EdgeConv(nn.Sequential(first, nn.ReLU(), *second))
    if name == "GIN":
        mlp = nn.Sequential(nn.Linear(features, size), nn.ReLU(), nn.Linear(size, size))
        return pyg.GINConv(mlp)
    if name in ("GAT", "GATv2"):
        cls = pyg.GATConv if name == "GAT" else pyg.GATv2Conv
        return cls(features, size // _HEADS, heads=_HEADS)
    kind, _, reduce = name.partition(" ")
    if kind == "SAGE":
        return pyg.SAGEConv(features, size, aggr=reduce)
    return pyg.GCNConv(features, size)


MODELS = (
    *("GCN", "SAGE mean", "SAGE max", "GAT", "GATv2", "GIN"),
    *("PNA", "RGCN", "EdgeConv", "EdgeConv MLP"),
)


class Network(nn.Module):
    """Two layers with a ReLU between them."""

    def __init__(self, name: str, features: int, hidden: int, degrees: Tensor) -> None:
        super().__init__()
        self.first = _layer(name, features, hidden, degrees)
        self.second = _layer(name, hidden, _CLASSES, degrees)

    def forward(self, x: Tensor, *edges: Tensor) -> Tensor:
        """`edges` holds the edge index and, for RGCN, the edge types."""
        return self.second(self.first(x, *edges).relu(), *edges)


@dataclass(frozen=True)
class Column:
    """The context that a step runs in, and how the model is changed."""

    around: Callable[[], AbstractContextManager[None]]
    change: Callable[[nn.Module], nn.Module] = lambda model: model


@contextmanager
def _allocator_alone() -> Iterator[None]:
    memory = importlib.import_module("cpuaccel.memory")
    native = importlib.import_module("cpuaccel._native").load()
    with _plugin.enabled(False):
        memory.install(native)
        try:
            yield
        finally:
            memory.uninstall(native)


def _columns() -> dict[str, Column]:
    return {
        "torch": Column(partial(_plugin.enabled, False)),
        "torch, allocator": Column(_allocator_alone),
        "cpuaccel": Column(partial(_plugin.enabled, True)),
        "accelerated": Column(partial(_plugin.enabled, True), _plugin.accelerate),
    }


class Training:
    """A model, its optimizer and the graph."""

    title = "training step"

    def __init__(self, model: nn.Module, x: Tensor, target: Tensor, *edges: Tensor) -> None:
        self.model, self.x, self.target, self.edges = model, x, target, edges
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)

    def step(self) -> Tensor:
        """Runs one step and returns the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def loss(self) -> Tensor:
        """The loss over all nodes."""
        return nn.functional.cross_entropy(self.model(self.x, *self.edges), self.target)


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    run(make_parser(__spec__, __doc__), arguments, Training)


def run(
    parser: argparse.ArgumentParser, arguments: list[str] | None, training: type[Training]
) -> None:
    """Adds the options to `parser`, parses `arguments`, measures, and prints or writes results."""
    _add_arguments(parser)
    options = parser.parse_args(arguments)
    require_known([options.graph], GRAPHS, "graph")
    require_known(options.models, MODELS, "model")
    torch.set_num_threads(options.threads)
    _shared.require_torch_geometric()
    reasons = {name: _plugin.missing() for name in _columns() if name != "torch"}
    columns = {name: column for name, column in _columns().items() if not reasons.get(name)}
    graph = graph_of(options.graph, options.scale, options.edges)
    edge_index = torch.stack(ends_of(graph, torch.int64))
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(graph.nodes, options.hidden, generator=generator)
    target = torch.randint(0, _CLASSES, (len(x),), generator=generator)
    facts = {
        **_machine.describe(),
        "graph": f"{options.graph}, {len(x):,} nodes, {edge_index.shape[1]:,} edges, "
        f"int64 indices, {options.hidden} features and hidden, float32, full-batch",
    }
    ratios = [
        Ratio("cpuaccel", "torch"),
        Ratio("accelerated", "torch"),
        Ratio("cpuaccel", "torch, allocator"),
        Ratio("accelerated", "torch, allocator"),
    ]
    report = Report(
        f"{training.title}, median time", facts, list(columns), ratios, notes=not_measured(reasons)
    )
    peaks = Table(title="peak memory of a step, MiB", title_justify="left")
    peaks.add_column("")
    for name in columns:
        peaks.add_column(name, justify="right")
    for name in options.models:
        kinds = torch.randint(0, _RELATIONS, (options.edges,), generator=generator)
        edges = (edge_index, kinds) if name == "RGCN" else (edge_index,)
        report.rows.append(_measure(name, columns, (x, target, *edges), options, training))
        found = report.rows[-1].extra["peak_bytes"]
        peaks.add_row(name, *(f"{found[w] / 2**20:.0f}" if w in found else "-" for w in columns))
        if options.json:
            report.write_json(options.json)
    console = _machine.console()
    report.print(console)
    console.print(peaks)


def _measure(
    name: str,
    columns: dict[str, Column],
    data: tuple[Tensor, ...],
    options: Any,
    cls: type[Training],
) -> Row:
    """A row of times; its extra entries are first losses, peaks and the kernels cpuaccel ran."""
    torch.manual_seed(1)
    x, _, edge_index, *_ = data
    degrees = edge_index[1].bincount(minlength=len(x)).bincount()
    model = Network(name, options.hidden, options.hidden, degrees)
    contenders: dict[str, Contender] = {}
    extra: dict[str, dict[str, Any]] = {"loss": {}, "peak_bytes": {}, "calls": {}}
    for label, column in columns.items():
        with column.around():
            training = cls(column.change(copy.deepcopy(model)), *data)
            extra["loss"][label] = float(training.step())
            if label != "torch":
                extra["peak_bytes"][label] = _peak(training.step)
                extra["calls"][label] = _plugin.calls_of(training.step)
        contenders[label] = Contender(training.step, column.around)
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    return Row(name, samples, extra)


def _peak(step: Callable[[], object]) -> int:
    memory = importlib.import_module("cpuaccel.memory")
    before = memory.stats()["allocated"]
    memory.reset_peak_stats()
    step()
    peak: int = memory.stats()["peak_allocated"]
    return peak - before


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models",
        type=names,
        default=list(MODELS),
        help=f"names from {','.join(MODELS)} (default: all)",
    )
    _shared.add_graph(parser, scale=16, edges=1_300_000)
    parser.add_argument(
        "--hidden", type=positive, default=64, help="hidden features, a multiple of 8 (default: 64)"
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=5, budget=20.0, of="a model")
    add_json(parser)


if __name__ == "__main__":
    main()
