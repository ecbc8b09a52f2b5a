"""Other torch features around compiled graphs: transforms, modes, copies, processes."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

pytestmark = needs_onednn

_TIMEOUT = 120


class _Net(nn.Module):
    """At module level, where pickle and spawned processes find it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        return self.linear(x.mean((2, 3)))


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


def _net() -> _Net:
    torch.manual_seed(0)
    return _Net().eval()


def _mlp() -> _Mlp:
    torch.manual_seed(0)
    return _Mlp().eval()


def _x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(3, 4, 9, 9)


def _compiled(model: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend="cpuaccel")


def _regions_ran() -> int:
    return int(cpuaccel.stats()["calls"].get("graph_region.cpuaccel", 0))


@pytest.fixture(autouse=True)
def _counts() -> None:
    cpuaccel.reset_stats()


def test_vmap_inside_of_a_compiled_function() -> None:
    mlp, x = _mlp(), torch.randn(5, 3, 16)
    with torch.no_grad():
        found = _compiled(torch.func.vmap(mlp))(x)
        torch.testing.assert_close(found, mlp(x), atol=1e-5, rtol=1e-4)
    assert _regions_ran() == 1


def test_vmap_over_a_compiled_function() -> None:
    mlp, x = _mlp(), torch.randn(5, 3, 16)
    with torch.no_grad():
        found = torch.func.vmap(_compiled(mlp))(x)
        torch.testing.assert_close(found, mlp(x), atol=1e-5, rtol=1e-4)


def test_grad_inside_of_a_compiled_function() -> None:
    mlp, x = _mlp(), torch.randn(3, 16)

    def loss(each: Tensor) -> Tensor:
        return mlp(each).square().sum()

    expected = torch.func.grad(loss)(x)
    torch.testing.assert_close(_compiled(torch.func.grad(loss))(x), expected, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        found = _compiled(torch.func.grad(loss))(x)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_grad_over_a_compiled_function() -> None:
    mlp, x = _mlp(), torch.randn(3, 16)
    compiled = _compiled(mlp)
    expected = torch.func.grad(lambda each: mlp(each).square().sum())(x)
    found = torch.func.grad(lambda each: compiled(each).square().sum())(x)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_default_device() -> None:
    def of(x: Tensor) -> Tensor:
        return model(x + torch.ones(9)) * torch.arange(5)

    model = _net()
    with torch.no_grad():
        expected = of(_x())
        torch.set_default_device("cpu")
        try:
            found = _compiled(of)(_x())
            optimized = cpuaccel.optimize(model, (_x(),))(_x())
        finally:
            torch.set_default_device(None)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(optimized, model(_x()), atol=1e-5, rtol=1e-4)
    assert _regions_ran() >= 2


def test_modes_that_change_from_call_to_call() -> None:
    """Inference tensors, gradients and autocast are each compiled separately, and not mixed up."""
    model = _net()
    compiled, optimized = _compiled(model), cpuaccel.optimize(model, (_x(),))
    for _ in range(2):
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
            with mode():
                expected, x = model(_x()), _x()
                for found in (compiled(x), optimized(x)):
                    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
                    assert found.is_inference() == expected.is_inference()
                    assert found.requires_grad == expected.requires_grad
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            expected = model(_x())
            for found in (compiled(_x()), optimized(_x())):
                assert found.dtype == expected.dtype == torch.bfloat16
                torch.testing.assert_close(found, expected, atol=0.05, rtol=0.05)


def test_a_model_that_was_compiled_is_copied_and_saved() -> None:
    model, x = _net(), _x()
    with torch.no_grad():
        expected = model(x)
        model.compile(backend="cpuaccel")
        torch._dynamo.reset()
        model(x)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        for other in (copy.deepcopy(model), torch.load(buffer, weights_only=False)):
            torch.testing.assert_close(other(x), expected, atol=1e-5, rtol=1e-4)
            other.linear.bias.add_(1)
            torch.testing.assert_close(other(x), expected + 1, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-4)


def test_a_compiled_module_is_copied() -> None:
    model, x = _net(), _x()
    with torch.no_grad():
        compiled = _compiled(model)
        expected = compiled(x)
        other = copy.deepcopy(compiled)
        other.linear.bias.add_(1)
        torch.testing.assert_close(other(x), expected + 1, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(compiled(x), expected)


# Processes


def _run_here(model: nn.Module, x: Tensor, results: Any) -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        results.put(model(x).tolist())


def _run_compiled(model: nn.Module, x: Tensor, results: Any) -> None:
    _run_here(torch.compile(model, backend="cpuaccel"), x, results)


def _in_a_child(method: str, target: Any, *args: Any) -> Tensor:
    context = mp.get_context(method)
    results = context.SimpleQueue()
    child = context.Process(target=target, args=(*args, results))
    child.start()
    child.join(_TIMEOUT)
    if child.is_alive():
        child.kill()
        pytest.fail("the child hangs")
    assert child.exitcode == 0
    return torch.tensor(results.get())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_runs_the_parents_compiled_module(threads: int) -> None:
    torch.set_num_threads(threads)
    model, x = _net(), _x()
    with torch.no_grad():
        compiled, optimized = _compiled(model), cpuaccel.optimize(model, (x,))
        expected = compiled(x)
        optimized(x)
        for each in (compiled, optimized):
            found = _in_a_child("fork", _run_here, each, x)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(compiled(x), expected)


def _misses_here(model: nn.Module, x: Tensor, results: Any) -> None:
    with torch.no_grad():
        model(x)
    found = cpuaccel.stats()["graph_cache"]
    results.put([found["hits"], found["misses"], found["size"]])


def test_a_forked_child_packs_no_weights_again() -> None:
    torch.set_num_threads(1)
    x = _x()
    optimized = cpuaccel.optimize(_net(), (x,), time_budget=0)
    with torch.no_grad():
        optimized(x)
    cpuaccel.clear_caches()  # those of models that other tests compiled
    with torch.no_grad():
        optimized(x)
    size = cpuaccel.stats()["graph_cache"]["size"]
    assert size > 0
    hits, misses, kept = _in_a_child("fork", _misses_here, optimized, x)
    assert hits > 0
    assert misses == 0
    assert kept == size


def test_a_spawned_child_compiles_the_model_it_is_sent() -> None:
    model, x = _net(), _x()
    with torch.no_grad():
        expected = _compiled(model)(x)
    found = _in_a_child("spawn", _run_compiled, model, x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


class _Embedded(torch.utils.data.Dataset[Tensor]):
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        with torch.no_grad():
            return self.model(_x() + index)[0]


def test_workers_of_a_loader_run_the_parents_optimized_module() -> None:
    model = _net()
    data = _Embedded(cpuaccel.optimize(model, (_x(),)))
    expected = torch.stack([data[index] for index in range(4)])
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, timeout=_TIMEOUT)
    torch.testing.assert_close(torch.cat(list(loader)), expected)


# Several processes with one model


def _sharded(rank: int, store: str, kind: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        with torch.no_grad():
            {"tensor parallel": _tensor_parallel, "fsdp": _fsdp, "fsdp prepacked": _fsdp_prepacked}[
                kind
            ]()
    finally:
        dist.destroy_process_group()


def _mesh() -> Any:
    return dist.init_device_mesh("cpu", (2,))


def _agree_twice(sharded: nn.Module, x: Tensor, expected: Tensor) -> None:
    compiled = torch.compile(sharded, backend="cpuaccel")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected, atol=1e-5, rtol=1e-4)


def _tensor_parallel() -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))
    expected = _mlp()(x)
    sharded = parallelize_module(
        _mlp(), _mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    _agree_twice(sharded, x, expected)
    assert _regions_ran() > 0


def _fsdp() -> None:
    from torch.distributed.fsdp import fully_shard

    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))
    expected = _mlp()(x)
    sharded = _mlp()
    fully_shard(sharded, mesh=_mesh())
    _agree_twice(sharded, x, expected)


def _fsdp_prepacked() -> None:
    from torch.distributed.fsdp import fully_shard

    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))
    expected = _mlp()(x)
    sharded = cpuaccel.prepack(_mlp())
    fully_shard(sharded, mesh=_mesh())
    for _ in range(2):
        torch.testing.assert_close(sharded(x), expected, atol=1e-5, rtol=1e-4)
    _agree_twice(sharded, x, expected)


@pytest.mark.parametrize("kind", ["tensor parallel", "fsdp", "fsdp prepacked"])
def test_a_model_on_two_processes(kind: str, tmp_path: Path) -> None:
    started = mp.spawn(_sharded, (str(tmp_path / "store"), kind), nprocs=2, join=False)
    for _ in range(2):
        if started.join(timeout=_TIMEOUT):
            return
    for process in started.processes:
        process.kill()
    pytest.fail("a process hangs")
