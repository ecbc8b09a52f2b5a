"""Weights that torch.distributed writes: packed weights follow, though their versions stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

import torch.distributed as dist
import torch.multiprocessing as mp

pytestmark = needs_onednn

_TIMEOUT = 120
_WIDTH = 128
_PLACES = [(3, 7), (200, 90), (511, 0), (77, 127), (400, 64), (129, 33)]
"""Numbers that are written alone: 64 looks at parts of the weight would find one of them."""


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(_WIDTH, 4 * _WIDTH)
        self.down = nn.Linear(4 * _WIDTH, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def _mlp() -> _Mlp:
    torch.manual_seed(0)
    return _Mlp().eval()


def _x() -> Tensor:
    return torch.randn(16, _WIDTH, generator=torch.Generator().manual_seed(1))


def _calls(name: str) -> int:
    return int(cpuaccel.stats()["calls"].get(name, 0))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    store = f"file://{tmp_path / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _gather(weight: Tensor) -> None:
    dist.all_gather([weight.data], weight.data.clone())


def _gather_coalesced(weight: Tensor) -> None:
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(weight.data, weight.data.clone())


_COLLECTIVES: dict[str, Callable[[Tensor], Any]] = {
    "broadcast": lambda weight: dist.broadcast(weight, 0),
    "broadcast of a view": lambda weight: dist.broadcast(weight[10:20], 0),
    "all_reduce": dist.all_reduce,
    "reduce": lambda weight: dist.reduce(weight, 0),
    "all_gather": _gather,
    "all_gather_into_tensor": lambda weight: dist.all_gather_into_tensor(
        weight.data, weight.data.clone()
    ),
    "coalesced": _gather_coalesced,
    "reduce_scatter_tensor": lambda weight: dist.reduce_scatter_tensor(
        weight.data, weight.data.clone()
    ),
    "all_to_all_single": lambda weight: dist.all_to_all_single(weight.data, weight.data.clone()),
    "scatter": lambda weight: dist.scatter(weight.data, [weight.data.clone()]),
}


@pytest.mark.filterwarnings("ignore:.*is deprecated", "ignore:.*_coalescing_manager")
@pytest.mark.parametrize("name", _COLLECTIVES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.usefixtures("group")
def test_a_collective_that_writes_a_weight_is_noticed(name: str, mode: Any) -> None:
    torch._dynamo.reset()
    model, x = _mlp(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    cpuaccel.reset_stats()
    with mode():
        compiled(x)
        for row, column in _PLACES:
            # Through `.data`, as the threads of a process group write: the version stays.
            model.up.weight.data[row, column] += 5
            _COLLECTIVES[name](model.up.weight)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
    assert _calls("graph_region.cpuaccel") > len(_PLACES)


def _allocated_again(weight: Tensor, elsewhere: list[Tensor]) -> None:
    """Frees the weight's memory and fills other memory, as FSDP does; the version stays."""
    values = weight.clone()
    storage = weight.untyped_storage()
    size, before = storage.nbytes(), storage.data_ptr()
    with torch.autograd._unsafe_preserve_version_counter(weight):
        while storage.data_ptr() == before:
            storage.resize_(0)
            # Takes the memory that was freed, or other free memory.
            elsewhere.append(torch.empty_like(values))
            storage.resize_(size)
        weight.copy_(values)


def test_a_weight_that_moved_stays_packed() -> None:
    torch._dynamo.reset()
    model, x, elsewhere = _mlp(), _x(), []
    compiled = torch.compile(model, backend="cpuaccel")
    with torch.no_grad():
        for _ in range(2):
            expected = compiled(x)
        before = cpuaccel.stats()["graph_cache"]
        for _ in range(4):
            _allocated_again(model.up.weight, elsewhere)
            assert torch.equal(compiled(x), expected)
        after = cpuaccel.stats()["graph_cache"]
        assert after["misses"] == before["misses"]
        assert after["hits"] > before["hits"]
        _allocated_again(model.up.weight, elsewhere)
        model.up.weight.data[3, 7] += 5
        _allocated_again(model.up.weight, elsewhere)
        torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)


def test_a_packed_weight_of_a_layer_that_moved_stays() -> None:
    torch.manual_seed(0)
    weight, x, elsewhere = torch.randn(512, _WIDTH), _x(), []

    def run() -> Tensor:
        result: Tensor = torch.ops.cpuaccel.kept_linear(x, weight, None, "")
        return result

    expected = run()
    before = cpuaccel.stats()["kept_weights"]
    for _ in range(4):
        _allocated_again(weight, elsewhere)
        assert torch.equal(run(), expected)
    after = cpuaccel.stats()["kept_weights"]
    assert after["misses"] == before["misses"]
    assert after["hits"] == before["hits"] + 4
    for row, column in _PLACES:
        with torch.autograd._unsafe_preserve_version_counter(weight):
            weight[row, column] += 5
        _allocated_again(weight, elsewhere)
        torch.testing.assert_close(run(), x @ weight.T, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("ran_before", [False, True])
def test_optimize_leaves_a_model_of_fsdp_as_it_is(ran_before: bool) -> None:
    from torch.distributed.fsdp import fully_shard

    model, x = nn.Sequential(_mlp(), _mlp()).eval(), _x()
    expected = model(x).detach()
    mesh = dist.init_device_mesh("cpu", (1,))
    for each in (*model, model):
        fully_shard(each, mesh=mesh)
    with torch.no_grad():
        if ran_before:
            model(x)
        optimized = cpuaccel.optimize(model, (x,))
        assert "torch.distributed runs its layers" in optimized.verdict.reason
        for run in (optimized, model):
            torch.testing.assert_close(run(x), expected, atol=1e-5, rtol=1e-4)
    model(x).sum().backward()


@pytest.mark.usefixtures("group")
def test_optimize_leaves_a_tensor_parallel_model_as_it_is() -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model, x = _mlp(), _x()
    expected = model(x).detach()
    mesh = dist.init_device_mesh("cpu", (1,))
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,))
        assert "torch.distributed runs its layers" in optimized.verdict.reason
        torch.testing.assert_close(optimized(x), expected, atol=1e-5, rtol=1e-4)


# Several processes


def _sharded(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        for mode in (torch.no_grad, torch.inference_mode):
            _follows_changes_of_shards(rank, mode)
    finally:
        dist.destroy_process_group()


def _follows_changes_of_shards(rank: int, mode: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    torch._dynamo.reset()
    model, plain, x = _mlp(), _mlp(), _x()
    model.compile(backend="cpuaccel")
    root = nn.Sequential(model)  # FSDP keeps the weights of the root itself gathered
    mesh = dist.init_device_mesh("cpu", (2,))
    for each in (model, root):
        fully_shard(each, mesh=mesh)
    rows = plain.up.weight.shape[0] // 2
    cpuaccel.reset_stats()
    for row, column in _PLACES:
        with torch.no_grad():
            plain.up.weight[row, column] += 5
            if row // rows == rank:
                model.up.weight.to_local()[row % rows, column] += 5
        with mode():
            for _ in range(2):
                torch.testing.assert_close(root(x), plain(x), atol=1e-4, rtol=1e-4)
    found = cpuaccel.stats()["graph_cache"]
    assert found["misses"] <= len(_PLACES) + 1, found  # packed once for each change
    assert found["hits"] >= len(_PLACES) - 1, found


def test_weights_of_fsdp_in_two_processes(tmp_path: Path) -> None:
    started = mp.spawn(_sharded, (str(tmp_path / "store"),), nprocs=2, join=False)
    for _ in range(2):
        if started.join(timeout=_TIMEOUT):
            return
    for process in started.processes:
        process.kill()
    pytest.fail("a process hangs")
