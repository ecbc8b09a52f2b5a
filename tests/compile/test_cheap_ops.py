"""The few cheap ops outside of regions run on torch's kernels: nothing is compiled for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.lowering import lowerings

from compile._compiled import needs_onednn, seen
from cpuaccel.compile.partition import cheap_ops

pytestmark = needs_onednn


class Encoder(nn.Module):
    """Embeddings and a norm before linear layers, and a norm after them."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.words = nn.Embedding(50, 16)
        self.places = nn.Embedding(8, 16)
        self.first = nn.LayerNorm(16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))
        self.last = nn.LayerNorm(16)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = self.first(x)
        for layer in self.layers:
            x = layer(x).relu() + x
        return self.last(x)


@contextmanager
def _compiled_kernels() -> Iterator[list[str]]:
    """Collects the C++ sources that Inductor compiles."""
    sources: list[str] = []
    original = CppPythonBindingsCodeCache.load_pybinding_async.__func__

    def record(cls, types, source, *args, **kwargs):
        sources.append(source)
        return original(cls, types, source, *args, **kwargs)

    with mock.patch.object(CppPythonBindingsCodeCache, "load_pybinding_async", classmethod(record)):
        yield sources


def _tokens(length: int = 8) -> Tensor:
    return torch.arange(2 * length).view(2, length)


@pytest.mark.parametrize("ci", ["", "1"])  # Inductor raises more errors if CI is set
def test_no_kernel_is_compiled_beside_many_layers(ci: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.delitem(lowerings, torch.ops.aten.native_layer_norm.default, raising=False)
    with _compiled_kernels() as sources:
        made = seen(Encoder(cheap_ops._LEAST_LAYERS), _tokens(), float64=False)
    assert len(made.regions) == 1
    assert sources == []


@pytest.mark.parametrize("why", ["few layers", "large results"])
def test_else_inductor_compiles_them(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = cheap_ops._LEAST_LAYERS
    if why == "few layers":
        layers = 2
    else:
        monkeypatch.setattr(cheap_ops, "_MOST_ELEMENTS", 100)
    with _compiled_kernels() as sources:
        seen(Encoder(layers), _tokens())
    assert sources


def test_a_wrong_index_is_torchs_error() -> None:
    model = Encoder(cheap_ops._LEAST_LAYERS).eval()
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel")
        compiled(_tokens())
        for wrong in (-1, 50):
            with pytest.raises(IndexError, match="index out of range"):
                compiled(torch.full((2, 8), wrong))
