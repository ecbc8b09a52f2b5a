"""The rows of PyTorch 2.0's table of PyG models on CPUs, and the sizes of their graphs."""

from dataclasses import dataclass

from benchmarks.gnn._graphs import PRODUCTS, PROTEINS, REDDIT


@dataclass(frozen=True)
class Whole:
    """A graph that is processed whole or in batches; `sigma` sets the skew of its degrees."""

    nodes: int
    edges: int
    features: int
    classes: int
    sigma: float


@dataclass(frozen=True)
class Many:
    """A data set of graphs to classify: average nodes per graph and edges per node."""

    nodes: float
    edges_of_a_node: float
    features: int
    classes: int


DATA: dict[str, Whole | Many] = {
    "Reddit": Whole(232_965, 114_615_892, 602, 41, REDDIT),
    "ogbn-products": Whole(2_449_029, 123_718_280, 100, 47, PRODUCTS),
    "PROTEINS": Many(*PROTEINS, 3, 2),
    "REDDIT-BINARY": Many(429.63, 995.51 / 429.63, 1, 2),
}


@dataclass(frozen=True)
class BlogRow:
    """One row of the table: what ran, and the speedup of PyTorch 2.0 over 1.13.1.

    `batch` counts nodes, or graphs to classify; 0 means the whole graph. If `sparse`, edges are
    given as a CSR matrix instead of an edge_index.
    """

    model: str
    data: str
    train: bool
    batch: int
    layers: int
    hidden: int
    sparse: bool
    blog: float

    @property
    def name(self) -> str:
        """The name in the table: model-data, task, batch-layers-hidden-format."""
        kind = "training" if self.train else "inference"
        if isinstance(DATA[self.data], Many):
            option = f"{self.layers}-{self.hidden}"
        else:
            batch = self.batch or "full"
            option = f"{batch}-{self.layers}-{self.hidden} {'sparse' if self.sparse else 'dense'}"
        return f"{self.model}-{self.data} {kind} {option}"


_GRAPHS = 128
"""Graphs per batch; the table does not give it."""

ROWS = (
    BlogRow("GCN", "Reddit", False, 512, 2, 64, False, 1.22),
    BlogRow("GCN", "Reddit", False, 1024, 3, 128, False, 1.25),
    BlogRow("GCN", "Reddit", False, 512, 2, 64, True, 1.31),
    BlogRow("GCN", "Reddit", False, 1024, 3, 128, True, 1.68),
    BlogRow("GraphSAGE", "ogbn-products", False, 1024, 3, 128, False, 1.15),
    BlogRow("GraphSAGE", "ogbn-products", False, 512, 2, 64, True, 1.20),
    BlogRow("GraphSAGE", "ogbn-products", False, 1024, 3, 128, True, 1.33),
    # The table gives neither the number of layers nor their width.
    BlogRow("GraphSAGE", "ogbn-products", False, 0, 3, 128, True, 4.07),
    BlogRow("GCN", "PROTEINS", True, _GRAPHS, 3, 32, False, 1.67),
    BlogRow("GCN", "REDDIT-BINARY", True, _GRAPHS, 3, 32, False, 1.67),
    BlogRow("GCN", "Reddit", True, 512, 2, 64, False, 1.20),
    BlogRow("GCN", "Reddit", True, 1024, 3, 128, False, 1.12),
)
