"""The rows of PyTorch 2.0's table of PyG models on CPUs, and graphs of the same size class."""

from dataclasses import dataclass

from benchmarks.gnn._graphs import PRODUCTS, PROTEINS, REDDIT


@dataclass(frozen=True)
class Whole:
    """A graph of which batches are taken, or which is one; `sigma` is its degrees' skew."""

    nodes: int
    edges: int
    features: int
    classes: int
    sigma: float


@dataclass(frozen=True)
class Many:
    """Graphs to classify: nodes of one and edges of a node, on average."""

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
    """A line of the table: what ran, and how many times as fast it was on 2.0 as on 1.13.1.

    `batch` is of nodes, or of graphs to classify, 0 the whole graph; `sparse` is a CSR matrix in
    the place of an edge_index.
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
        """As the table has it: model-data, what for, batch-layers-hidden-format."""
        kind = "training" if self.train else "inference"
        if isinstance(DATA[self.data], Many):
            option = f"{self.layers}-{self.hidden}"
        else:
            batch = self.batch or "full"
            option = f"{batch}-{self.layers}-{self.hidden} {'sparse' if self.sparse else 'dense'}"
        return f"{self.model}-{self.data} {kind} {option}"


_GRAPHS = 128
"""Graphs of a batch; the table does not say."""

ROWS = (
    BlogRow("GCN", "Reddit", False, 512, 2, 64, False, 1.22),
    BlogRow("GCN", "Reddit", False, 1024, 3, 128, False, 1.25),
    BlogRow("GCN", "Reddit", False, 512, 2, 64, True, 1.31),
    BlogRow("GCN", "Reddit", False, 1024, 3, 128, True, 1.68),
    BlogRow("GraphSAGE", "ogbn-products", False, 1024, 3, 128, False, 1.15),
    BlogRow("GraphSAGE", "ogbn-products", False, 512, 2, 64, True, 1.20),
    BlogRow("GraphSAGE", "ogbn-products", False, 1024, 3, 128, True, 1.33),
    # The table does not say how many layers, nor how wide.
    BlogRow("GraphSAGE", "ogbn-products", False, 0, 3, 128, True, 4.07),
    BlogRow("GCN", "PROTEINS", True, _GRAPHS, 3, 32, False, 1.67),
    BlogRow("GCN", "REDDIT-BINARY", True, _GRAPHS, 3, 32, False, 1.67),
    BlogRow("GCN", "Reddit", True, 512, 2, 64, False, 1.20),
    BlogRow("GCN", "Reddit", True, 1024, 3, 128, False, 1.12),
)
