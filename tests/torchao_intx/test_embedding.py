"""torchao's integer tables: embeddings and bags read and dequantize the rows asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import counted, needs_plugin
from torch import Tensor, nn

import cpuaccel

quantization = pytest.importorskip("torchao.quantization")
pytest.importorskip("torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor")

pytestmark = needs_plugin

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_N, _D = 50, 96


def _configs() -> Iterator[tuple[str, Any]]:
    for bits in (8, 4, 3):
        dtype = getattr(torch, f"int{bits}")
        groups = quantization.PerGroup(32), quantization.PerAxis(0)
        for name, granularity in zip(("group 32", "row"), groups, strict=True):
            config = quantization.IntxWeightOnlyConfig(
                weight_dtype=dtype,
                granularity=granularity,
                mapping_type=quantization.MappingType.ASYMMETRIC
                if bits == 4
                else quantization.MappingType.SYMMETRIC,
            )
            yield f"{bits} bits, {name}", config
    yield "Int8Tensor", quantization.Int8WeightOnlyConfig()


_CONFIGS = dict(_configs())
some = pytest.mark.parametrize("name", list(_CONFIGS))
dtypes = pytest.mark.parametrize("dtype", _DTYPES, ids=str)


def _layer(name: str, dtype: torch.dtype = torch.float32, kind: Any = nn.Embedding) -> Any:
    torch.manual_seed(7)
    layer = kind(_N, _D).to(dtype)
    quantization.quantize_(
        nn.Sequential(layer), _CONFIGS[name], filter_fn=lambda module, _: isinstance(module, kind)
    )
    return layer


def _indices(*shape: int) -> Tensor:
    return torch.randint(_N, shape, generator=torch.Generator().manual_seed(1))


@some
@dtypes
@torch.no_grad()
def test_rows_are_those_of_the_dequantized_table(name: str, dtype: torch.dtype) -> None:
    layer = _layer(name, dtype)
    table = layer.weight.dequantize()
    assert table.dtype == dtype
    for indices in (_indices(7), _indices(3, 5).t(), _indices(1).int()[0], _indices(2, 600)):
        with counted() as counts:
            rows = layer(indices)
        assert dict(counts.calls)["intx_embedding.cpuaccel"] == 1
        assert torch.equal(rows, F.embedding(indices, table))
    assert layer(_indices(0, 3)).shape == (0, 3, _D)
    assert torch.equal(torch.ops.aten.embedding(layer.weight, _indices(4)), table[_indices(4)])
    with pytest.raises(IndexError, match="index out of range in self"):
        layer(torch.tensor([0, _N]))


@torch.no_grad()
def test_unusual_tables() -> None:
    """Zero points that are floats, no zero points, and strides, by torch's ops."""
    codes = torch.randint(-128, 128, (9, 16), dtype=torch.int8)
    scale, indices = torch.rand(9, 2), torch.tensor([[0, 8], [3, 3]])
    for zeros in (None, torch.randn(9, 2), torch.randint(-9, 9, (9, 2), dtype=torch.int8)):
        for dtype in _DTYPES:
            for table in (codes, codes.t().contiguous().t()):
                op = torch.ops.cpuaccel.intx_embedding
                got = op(table, scale, zeros, indices, dtype)
                values = codes.to(dtype).view(9, 2, 8)
                values = values if zeros is None else values - zeros.to(dtype)[..., None]
                exact = (values * scale[..., None]).view(9, 16).to(dtype)
                assert torch.equal(got, exact[indices])
    with pytest.raises(RuntimeError, match="expected dtype to be float32, bfloat16 or float16"):
        torch.ops.cpuaccel.intx_embedding(codes, scale, None, indices, torch.float64)
    with pytest.raises(RuntimeError, match="expected indices to be int64 or int32"):
        torch.ops.cpuaccel.intx_embedding(codes, scale, None, indices.float(), torch.float32)


@some
@torch.no_grad()
def test_bags(name: str) -> None:
    """torchao has none."""
    for mode in ("sum", "mean", "max"):
        layer = _layer(name, kind=nn.EmbeddingBag)
        layer.mode = mode
        table = layer.weight.dequantize()
        indices, offsets = _indices(40), torch.tensor([0, 3, 3, 17])
        arguments: dict[str, Any] = {"mode": mode}
        weights = torch.rand(40) if mode == "sum" else None
        for padding in (None, int(indices[4]), -1):
            layer.padding_idx = arguments["padding_idx"] = padding
            got = layer(indices, offsets, weights)
            wanted = F.embedding_bag(
                indices, table, offsets, per_sample_weights=weights, **arguments
            )
            torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)
            two = indices.view(8, 5).int()
            torch.testing.assert_close(layer(two), F.embedding_bag(two, table, **arguments))


@torch.no_grad()
def test_max_norm_is_torchs() -> None:
    layer = _layer("8 bits, row")
    layer.max_norm = 0.5
    with counted() as counts:
        rows = layer(_indices(4))
    assert list(counts.fallbacks) == ["intx_embedding: max_norm"]
    assert rows.norm(dim=1).max() <= 0.51


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@torch.no_grad()
def test_compiled(backend: str) -> None:
    torch._dynamo.reset()  # so that it does not count among the recompilations of other tests
    layer, indices = _layer("4 bits, group 32"), _indices(6)
    compiled = torch.compile(layer, backend=backend, fullgraph=True)
    with counted() as counts:
        rows = compiled(indices)
    assert dict(counts.calls)["intx_embedding.cpuaccel"] == 1
    assert torch.equal(rows, layer(indices))
    torch._dynamo.reset()


@torch.no_grad()
def test_exported_and_switched_off() -> None:
    layer, indices = _layer("4 bits, group 32", torch.bfloat16), _indices(6)
    program = torch.export.export(layer, (indices,))
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("cpuaccel.intx_embedding.default") == 1
    expected = layer(indices)
    assert torch.equal(program.module()(indices), expected)
    with cpuaccel.enabled(False):
        assert torch.equal(program.module()(indices), expected)
        assert torch.equal(layer(indices), expected)
        with pytest.raises(NotImplementedError):
            _layer("4 bits, group 32", kind=nn.EmbeddingBag)(indices[None])


@some
def test_explained(name: str) -> None:
    for kind in (nn.Embedding, nn.EmbeddingBag):
        (row,) = cpuaccel.explain(nn.Sequential(_layer(name, kind=kind))).rows
        assert (row.provider, row.kernel) == ("cpuaccel", "intx_embedding")
        assert "torchao's int" in row.reason
