"""The matrix products that are measured: linear layers of two models, and a large square."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from benchmarks._timing import Runner

_ROWS = (1, 16, 128, 1024)
_LAYERS = {
    "BERT-base": ((768, 768), (768, 3072), (3072, 768)),
    "Llama-7B": ((4096, 4096), (4096, 11008), (11008, 4096), (4096, 32000)),
}


@dataclass(frozen=True)
class ProductShape:
    """y = x w^T + bias of x (M x K) and w (N x K); `model` says where it is from."""

    model: str
    M: int
    K: int
    N: int
    bias: bool

    @property
    def name(self) -> str:
        """Such as "BERT-base 16x768x3072": M x K x N."""
        return f"{self.model} {self.M}x{self.K}x{self.N}"

    @property
    def flops(self) -> int:
        """Multiplications and additions of one call."""
        return 2 * self.M * self.K * self.N

    def bytes(self, dtype: torch.dtype) -> int:
        """Bytes of the operands and the result, each moved once."""
        return (self.M * self.K + self.K * self.N + self.M * self.N) * dtype.itemsize

    def runner(self, dtype: torch.dtype) -> Runner:
        """The call, on random operands."""
        generator = torch.Generator().manual_seed(1)
        x, w = (
            torch.randn(rows, self.K, generator=generator).to(dtype) for rows in (self.M, self.N)
        )
        bias = torch.zeros(self.N, dtype=dtype) if self.bias else None
        return partial(nn.functional.linear, x, w, bias)


# Llama's layers have no bias.
SHAPES: tuple[ProductShape, ...] = (
    *(
        ProductShape(model, M, K, N, bias=model == "BERT-base")
        for model, layers in _LAYERS.items()
        for K, N in layers
        for M in _ROWS
    ),
    ProductShape("square", 1024, 1024, 1024, bias=False),
)
