"""EmbeddingBag on cpuaccel's sparse products: values, gradients, and inputs that torch misreads."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_plugin
from torch import Tensor

from ops._floats import on

pytestmark = needs_plugin

MODES = ("sum", "mean", "max")
_N, _D = 9, 21
_TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def _exact(
    indices: Tensor,
    weight: Tensor,
    offsets: Tensor,
    mode: str,
    sample_weights: Tensor | None = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
) -> Tensor:
    """Each bag by itself, in float64."""
    ends = offsets.tolist()
    if not include_last_offset:
        ends.append(indices.numel())
    bags = []
    for begin, end in itertools.pairwise(ends):
        taken = torch.arange(begin, end)
        if padding_idx is not None:
            taken = taken[indices[taken] != padding_idx % weight.shape[0]]
        rows = weight.double()[indices[taken].long()]
        if sample_weights is not None:
            rows = rows * sample_weights.double()[taken, None]
        if taken.numel() == 0:
            bags.append(torch.zeros(weight.shape[1], dtype=torch.float64))
        elif mode == "max":
            bags.append(rows[rows.argmax(0), torch.arange(rows.shape[1])])
        else:
            bags.append(rows.sum(0) / (taken.numel() if mode == "mean" else 1))
    return torch.stack(bags) if bags else weight.double()[:0]


def _check(indices: Tensor, weight: Tensor, offsets: Tensor, mode: str, **more: Any) -> None:
    """Compares the result and all gradients with float64."""
    weight = weight.detach().requires_grad_()
    samples = more.get("sample_weights")
    wanted = _exact(indices, weight, offsets, mode, **more)
    keywords = {key: value for key, value in more.items() if key != "sample_weights"}
    with on():
        got = F.embedding_bag(
            indices, weight, offsets, mode=mode, per_sample_weights=samples, **keywords
        )
        inputs = [weight] if samples is None else [weight, samples]
        grad = torch.randn(got.shape, generator=torch.Generator().manual_seed(1)).to(got)
        gradients = torch.autograd.grad(got, inputs, grad)
    exact = torch.autograd.grad(wanted, inputs, grad.double())
    tolerance = _TOLERANCE[weight.dtype]
    for one, other in zip((got, *gradients), (wanted, *exact), strict=True):
        assert one.dtype == weight.dtype
        scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            one.detach().double(), other.detach().double(), rtol=0, atol=tolerance * scale
        )


def _table(dtype: torch.dtype, rows: int = _N, columns: int = _D) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", _TOLERANCE, ids=str)
def test_values_and_gradients(mode: str, dtype: torch.dtype) -> None:
    table = _table(dtype)
    indices = torch.tensor([1, 2, 2, 0, 3, 8, 8, 2, 1, 4])
    offsets = torch.tensor([0, 2, 2, 3, 7])
    last = torch.tensor([0, 2, 2, 3, 7, 10])
    for to, padding in itertools.product((torch.int64, torch.int32), (None, 2, -1)):
        _check(indices.to(to), table, offsets.to(to), mode, padding_idx=padding)
        _check(indices.to(to), table, last, mode, padding_idx=padding, include_last_offset=True)
        if mode == "sum":
            weights = _table(dtype, 10, 1)[:, 0].clone().requires_grad_()
            _check(
                indices.to(to), table, offsets, mode, padding_idx=padding, sample_weights=weights
            )


@pytest.mark.parametrize("mode", MODES)
def test_indices_in_no_bag(mode: str) -> None:
    """pytorch/pytorch#191965: torch's modes differ, and the backward of sum reads past grad."""
    indices, offsets = torch.tensor([0, 1, 2, 99]), torch.tensor([0, 2])
    for dtype in (torch.float32, torch.float64):
        table = _table(dtype)
        _check(indices[:3], table, offsets, mode, include_last_offset=True)
        _check(indices[:3], table, offsets, mode, include_last_offset=True, padding_idx=1)
        with on(), torch.no_grad():
            got = F.embedding_bag(indices, table, offsets, mode=mode, include_last_offset=True)
        torch.testing.assert_close(got.double(), _exact(indices[:2], table, offsets[:1], mode))
    weights = torch.randn(3, requires_grad=True)
    if mode == "sum":
        _check(
            indices[:3],
            _table(torch.float32),
            offsets,
            mode,
            include_last_offset=True,
            sample_weights=weights,
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", _TOLERANCE, ids=str)
def test_no_bags(mode: str, dtype: torch.dtype) -> None:
    """pytorch/pytorch#175370 and #190044: torch ends the process."""
    table = _table(dtype).requires_grad_()
    indices = torch.zeros(6, dtype=torch.int64)
    for offsets, last in ((torch.zeros(0, dtype=torch.int64), False), (torch.tensor([0]), True)):
        with on():
            got = F.embedding_bag(indices, table, offsets, mode=mode, include_last_offset=last)
            (gradient,) = torch.autograd.grad(got.sum(), table)
        assert got.shape == (0, _D)
        assert not gradient.any()
    with on(), pytest.raises(RuntimeError, match="number of offset should be at least 1"):
        F.embedding_bag(indices, table, indices[:0], mode=mode, include_last_offset=True)


@pytest.mark.parametrize("mode", MODES)
def test_offsets_that_descend(mode: str) -> None:
    """pytorch/pytorch#175368 and #55549: torch reads outside of the indices."""
    for dtype, indices, offsets in itertools.product(
        (torch.float32, torch.float64),
        (torch.zeros(0, dtype=torch.int64), torch.tensor([0, 1, 2, 3, 0])),
        (torch.tensor([0, 3, 2, 2]), torch.tensor([0, 9, 0]), torch.tensor([0, -2, 0])),
    ):
        for last in (False, True):
            with on(), pytest.raises(RuntimeError, match=r"offsets"):
                F.embedding_bag(
                    indices, _table(dtype), offsets, mode=mode, include_last_offset=last
                )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [-1, _N, 2**31])
def test_indices_out_of_range(mode: str, bad: int) -> None:
    """pytorch/pytorch#89362 and #71094."""
    for dtype, padding in itertools.product((torch.float32, torch.float64), (None, 0)):
        indices = torch.tensor([0, 3, bad, 1])
        with on(), pytest.raises(RuntimeError, match=str(bad)):
            F.embedding_bag(
                indices, _table(dtype), torch.tensor([0, 2]), mode=mode, padding_idx=padding
            )
        if dtype == torch.float64:
            with on(), pytest.raises(RuntimeError, match=str(bad)):
                F.embedding_bag(indices, _table(dtype, columns=0), torch.tensor([0, 2]), mode=mode)


def test_gradient_by_frequency() -> None:
    """pytorch/pytorch#190063: torch 2.13 divides by the count of another index."""
    table = torch.ones(4, 3, requires_grad=True)
    for mode, wanted in (("sum", [0, 1, 0, 1]), ("mean", [0, 1 / 3, 0, 1 / 3])):
        with on():
            got = F.embedding_bag(
                torch.tensor([1, 1, 3]),
                table,
                torch.tensor([0]),
                mode=mode,
                scale_grad_by_freq=True,
            )
            (gradient,) = torch.autograd.grad(got.sum(), table)
        torch.testing.assert_close(gradient, torch.tensor(wanted)[:, None].float().expand(4, 3))


def test_no_number_is_above_nan() -> None:
    """In torch a NaN counts only if it comes first."""
    table = torch.tensor([[1.0], [float("nan")], [2.0], [float("-inf")]], requires_grad=True)
    with on():
        got = F.embedding_bag(torch.tensor([[0, 1], [1, 2], [3, 3], [0, 2]]), table, mode="max")
        (gradient,) = torch.autograd.grad(got[2:].sum(), table)
    assert got[:2].isnan().all()
    assert got[2:].tolist() == [[float("-inf")], [2.0]]
    assert gradient.tolist() == [[0.0], [0.0], [1.0], [1.0]]


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
def test_sparse_gradient(mode: str, padding: int | None) -> None:
    table = _table(torch.float32).requires_grad_()
    for indices, offsets in (
        (torch.tensor([1, 2, 2, 0, 8]), torch.tensor([0, 2, 2, 5])),
        (torch.tensor([1, 2, 2, 0, 8]), torch.tensor([0, 2, 3])),
    ):
        wanted = _exact(
            indices, table, offsets, mode, padding_idx=padding, include_last_offset=True
        )
        with on():
            got = F.embedding_bag(
                indices,
                table,
                offsets,
                mode=mode,
                sparse=True,
                padding_idx=padding,
                include_last_offset=True,
            )
            (gradient,) = torch.autograd.grad(got.square().sum(), table)
        assert gradient.is_sparse
        (exact,) = torch.autograd.grad(wanted.square().sum(), table)
        torch.testing.assert_close(gradient.to_dense(), exact)


@pytest.mark.parametrize("mode", MODES)
def test_long_bags_and_strides(mode: str) -> None:
    """Bags beyond a piece of work, many empty rows of the table, tables with strides."""
    generator = torch.Generator().manual_seed(2)
    indices = torch.randint(20000, (30000,), generator=generator)
    offsets = torch.tensor([0, 0, 3, 25000, 25001])
    table = _table(torch.float32, 20000, 34)
    for each in (table, table[:, :32], table[:, ::2], table.t().contiguous().t()):
        _check(indices, each, offsets, mode, padding_idx=7)
    _check(indices, table, offsets, mode)


def test_outputs_are_torchs() -> None:
    """All four results of the op, for arguments that torch computes right."""
    indices, offsets = torch.tensor([1, 2, 2, 0, 3, 8]), torch.tensor([0, 2, 2, 4])
    last = torch.tensor([0, 2, 2, 4, 6])
    import cpuaccel

    for op, dtype, mode, padding, include in itertools.product(
        (torch.ops.aten._embedding_bag, torch.ops.aten._embedding_bag_forward_only),
        (torch.float32, torch.float64),
        range(3),
        (-1, 2),
        (False, True),
    ):
        arguments = (indices, last if include else offsets, False, mode, False, None, include)
        with on():
            got = op(_table(dtype), *arguments, padding)
        with cpuaccel.enabled(False):
            wanted = op(_table(dtype), *arguments, padding)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other)


def test_large_sums_are_torchs() -> None:
    import cpuaccel

    table, indices = _table(torch.float32), torch.arange(2000) % _N
    offsets = torch.tensor([0, 1000])
    with on():
        cpuaccel.reset_stats()
        for few in (indices, indices[:4]):
            F.embedding_bag(few, table, offsets[: 1 + len(few) // 2000], mode="sum")
        stats = cpuaccel.stats()
        with pytest.raises(RuntimeError, match=r"indices.*less than 9.*found 9"):
            F.embedding_bag(indices + 1, table, offsets, mode="sum")
    assert stats["fallbacks"] == {"embedding_bag: torch's kernel reads rows as fast": 1}
    assert stats["calls"] == {"embedding_bag.cpuaccel": 1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_compiled(mode: str) -> None:
    torch._dynamo.reset()  # so that it does not count among the recompilations of other tests
    layer = torch.nn.EmbeddingBag(_N, _D, mode=mode, padding_idx=2)
    indices, offsets = torch.tensor([1, 2, 2, 0, 3, 8]), torch.tensor([0, 2, 2, 4])
    with on():
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        compiled(indices, offsets).square().sum().backward()
        got = layer.weight.grad
        layer.weight.grad = None
        layer(indices, offsets).square().sum().backward()
    torch.testing.assert_close(got, layer.weight.grad)
    torch._dynamo.reset()
