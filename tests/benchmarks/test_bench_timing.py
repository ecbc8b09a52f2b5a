"""The benchmark timer interleaves, stays within its budget, and computes correct statistics."""

import time
from contextlib import contextmanager

import pytest

from benchmarks._timing import Contender, Sample, settle, side_by_side


def test_figures_of_a_sample():
    sample = Sample((3.0, 1.0, 2.0, 4.0, 5.0))
    assert (sample.median, sample.min, sample.max) == (3.0, 1.0, 5.0)
    assert sample.quartiles == (2.0, 4.0)
    assert sample.spread == pytest.approx(2 / 3)
    assert sample.to_dict()["median_ms"] == 3000.0


def test_one_round_has_no_spread():
    assert Sample((2.0,)).spread == 0.0


def test_rounds_are_interleaved_and_rotated():
    order: list[str] = []
    contenders = {name: Contender(lambda name=name: order.append(name)) for name in "ab"}
    samples = side_by_side(contenders, rounds=2, warmup=0, min_sample=0.0)
    assert [len(sample.seconds) for sample in samples.values()] == [2, 2]
    # One call finds the repeats; then each round has an untimed and a timed call.
    assert "".join(order) == "ab" + "aabb" + "bbaa"


def test_budget_ends_the_rounds_after_three():
    samples = side_by_side({"a": Contender(lambda: None)}, rounds=100, budget=0.0)
    assert len(samples["a"].seconds) == 3


def test_runs_inside_its_block():
    inside = False
    seen: list[bool] = []

    @contextmanager
    def block():
        nonlocal inside
        inside = True
        yield
        inside = False

    side_by_side({"a": Contender(lambda: seen.append(inside), block)}, rounds=2, min_sample=0.0)
    assert seen
    assert all(seen)
    assert not inside


@pytest.mark.parametrize(("busy_steps", "steps"), [(0, 2), (3, 5), (10**9, 100)])
def test_settle_waits_until_the_process_sleeps(monkeypatch, busy_steps, steps):
    clock = {"wall": 0.0, "cpu": 0.0, "steps": 0}

    def sleep(seconds):
        clock["wall"] += seconds
        clock["cpu"] += seconds if clock["steps"] < busy_steps else 0.0
        clock["steps"] += 1

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(time, "process_time", lambda: clock["cpu"])
    settle()
    assert clock["steps"] == pytest.approx(steps, abs=1)


def test_rounds_must_be_positive():
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        side_by_side({}, rounds=0)
