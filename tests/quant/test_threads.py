"""Python threads that share the engine, torch's thread count, and forks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from _reference import Geometry, assert_quantum, conv_real, requantize
from _strategies import Values
from torch import Tensor

from quant import _models as m
from quant import _processes
from quant._engine import OURS, needs_front_end, running
from quant._isolated import Outcome, outcomes
from quant._layers import Q, pack_conv_tensors

pytestmark = needs_front_end
providers = pytest.mark.parametrize("provider", OURS)


def _serial_and_parallel(
    jobs: list[Callable[[], Tensor]], rounds: int = 15
) -> tuple[list[Tensor], list[list[Tensor]]]:
    """The results of the jobs one after another, and of all at once, each in its own thread."""
    serial = [job() for job in jobs]

    def repeat(job: Callable[[], Tensor]) -> list[Tensor]:
        return [job() for _ in range(rounds)]

    with ThreadPoolExecutor(len(jobs)) as pool:
        return serial, list(pool.map(repeat, jobs))


@providers
@pytest.mark.parametrize("kinds", [("conv2d", "linear"), ("conv2d", "lstm")], ids=str)
def test_two_models_in_two_threads(provider: str, kinds: tuple[str, str]) -> None:
    with running(provider):
        models = [m.build(kind) for kind in kinds]

        def job(model: torch.nn.Module, x: Tensor) -> Callable[[], Tensor]:
            def run() -> Tensor:
                with torch.no_grad():
                    return m.first(model(x))

            return run

        serial, parallel = _serial_and_parallel([job(*pair) for pair in models])
    for expected, results in zip(serial, parallel, strict=True):
        assert all(torch.equal(expected, result) for result in results)


@providers
def test_one_packed_object_in_many_threads(provider: str) -> None:
    """Each thread has its own image size, so that they compete for the object's caches."""
    values = Values(seed=6, x_zero_point=9)
    geometry = Geometry((1, 1), (1, 1), (1, 1))
    weight = values.weight((16, 8, 3, 3))
    images = [values.activation((1, 8, 4 + i, 9 - i), "contiguous", stream=i) for i in range(4)]
    with running(provider):
        packed = pack_conv_tensors(weight, None, geometry)
        jobs = [lambda x=x: Q.conv2d(x, packed, 0.3, 40) for x in images]
        _, parallel = _serial_and_parallel(jobs, rounds=40)
    for x, results in zip(images, parallel, strict=True):
        expected = requantize(conv_real(x, weight, None, geometry), 0.3, 40)
        assert_quantum(results[0], expected)
        assert all(torch.equal(results[0], result) for result in results)


@providers
def test_models_made_and_dropped_in_threads(provider: str) -> None:
    """Packing, the first call and the destruction of objects, all at the same time."""
    values = Values(seed=6, x_zero_point=9)
    geometry = Geometry((1, 1), (0, 0), (1, 1))
    x = values.activation((1, 8, 6, 6), "contiguous")

    def job(channels: int) -> Callable[[], Tensor]:
        weight = values.weight((channels, 8, 3, 3))
        return lambda: Q.conv2d(x, pack_conv_tensors(weight, None, geometry), 0.3, 40)

    with running(provider):
        serial, parallel = _serial_and_parallel([job(c) for c in (3, 8, 16, 17)], rounds=25)
    for expected, results in zip(serial, parallel, strict=True):
        assert all(torch.equal(expected, result) for result in results)


@providers
@pytest.mark.parametrize("kind", ["conv2d", "linear", "conv3d", "lstm"])
def test_the_thread_count_does_not_change_the_result(provider: str, kind: str) -> None:
    results = []
    with running(provider), torch.no_grad():
        model, x = m.build(kind)
        for threads in (1, 2, 4, 1):
            torch.set_num_threads(threads)
            results.append(m.first(model(x)))
    assert all(torch.equal(results[0], result) for result in results)


@pytest.fixture(scope="module")
def ended() -> dict[str, Outcome]:
    return outcomes("quant._processes", CPUACCEL="1", OMP_NUM_THREADS="2")


@pytest.mark.parametrize("name", _processes.CASES)
def test_of_the_whole_process(name: str, ended: dict[str, Outcome]) -> None:
    assert ended[name] == Outcome("returned")
