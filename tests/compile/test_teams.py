"""Plans whose threads are woken once for several steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import cpuaccel
from compile._compiled import needs_onednn
from compile._optimized import quantized
from cpuaccel import config
from cpuaccel._native import load

pytestmark = needs_onednn

_X = torch.randn(2, 3, 40, 40)


@pytest.fixture(autouse=True)
def _layers_of_ours() -> Iterator[None]:
    """Layers run on cpuaccel's kernels, whatever this CPU's tables say."""
    before, threads = config.get("provider"), torch.get_num_threads()
    config.set("provider", "cpuaccel")
    torch.set_num_threads(2)
    yield
    config.set("provider", before)
    config.set("teams", True)
    torch.set_num_threads(threads)


def _plan() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 16, 1)]
    return cpuaccel.optimize(quantized(nn.Sequential(*layers).eval()), (_X,), time_budget=0)


def _opened_by(plan: nn.Module, x: Tensor = _X) -> tuple[int, Tensor]:
    before = load().teams_opened()
    with torch.no_grad():
        result = plan(x)
    return load().teams_opened() - before, result


def test_one_team_and_the_same_bits() -> None:
    plan = _plan()
    _opened_by(plan)  # tuning has not chosen the steps yet
    opened, result = _opened_by(plan)
    assert opened == 1
    config.set("teams", False)
    opened, alone = _opened_by(plan)
    assert opened == 0
    assert torch.equal(result, alone)
    config.set("teams", True)
    torch.set_num_threads(1)
    _opened_by(plan)  # makes a plan for another number of threads
    opened, serial = _opened_by(plan)
    assert opened == 0
    assert torch.equal(result, serial)


def test_torch_has_its_threads_again() -> None:
    plan = _plan()
    for _ in range(3):
        _opened_by(plan)
    x = torch.randn(2000, 500)
    expected = torch.from_numpy(x.numpy() * 2)
    assert torch.equal(x * 2, expected)
    assert torch.get_num_threads() == 2


def test_steps_are_seen_in_the_profiler() -> None:
    plan = _plan()
    _opened_by(plan)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        assert _opened_by(plan)[0] == 1
    names = {event.key for event in seen.key_averages()}
    assert any("q_conv" in name or "conv2d" in name for name in names)


def test_two_callers_have_a_team_each() -> None:
    plan = _plan()
    _, expected = _opened_by(plan)
    wrong: list[int] = []

    def call(number: int) -> None:
        torch.set_num_threads(2)
        for _ in range(50):
            with torch.no_grad():
                if not torch.equal(plan(_X), expected):
                    wrong.append(number)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(3)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong
