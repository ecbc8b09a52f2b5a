"""benchmarks.distributed.collectives from end to end, and its model of a link."""

import math

import pytest
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from benchmarks.distributed import collectives
from benchmarks.distributed._cost_model import Link, fitted


def test_both_tables_are_printed(capsys):
    collectives.main(["--models", "tiny-token,tiny-8", "--sockets", "2,4", "--rounds", "1"])
    out = capsys.readouterr().out
    assert "two processes, gloo" in out
    lines = [line for line in out.splitlines() if "tiny-" in line]
    assert [line.split("│")[2].strip() for line in lines] == ["1", "2", "4"] * 2


def test_a_given_link_is_used(capsys):
    link = ("--latency", "7", "--bandwidth", "2")
    collectives.main(["--models", "tiny-8", "--sockets", "2", "--rounds", "1", *link])
    out = capsys.readouterr().out
    assert "a = 7.0 us, b = 2.00 GB/s" in out
    reduced = 2 * (2 * 7 + 4 * 8 * 32 / 2e3)
    assert f"│ {reduced:.0f} │" in " ".join(out.split())


def test_unknown_models_and_sockets_are_errors():
    with pytest.raises(SystemExit, match="unknown model 'absent'"):
        collectives.main(["--models", "absent"])
    with pytest.raises(ValueError, match="tiny-8: 3 sockets do not divide 16 heads"):
        collectives.main(["--models", "tiny-8", "--sockets", "3", "--rounds", "1"])


def test_a_link_is_found_again():
    link = Link(2e-5, 3e9)
    sizes = [4096.0, 1e6, 1.6e7]
    found = fitted(sizes, [link.ring_all_reduce(2, size) for size in sizes])
    assert math.isclose(found.latency, link.latency, rel_tol=1e-6)
    assert math.isclose(found.bandwidth, link.bandwidth, rel_tol=1e-6)
    with pytest.raises(ValueError, match="expected times that grow"):
        fitted(sizes, [3e-3, 2e-3, 1e-3])


@pytest.mark.parametrize("sockets", [2, 4, 8, 16])
def test_costs_of_collectives(sockets):
    only_latency, only_bandwidth = Link(1.0, math.inf), Link(0.0, 1.0)
    assert only_latency.ring_all_reduce(sockets, 100.0) == 2 * (sockets - 1)
    assert only_latency.halving_all_reduce(sockets, 100.0) == 2 * math.log2(sockets)
    moved = 2 * 100 * (sockets - 1) / sockets
    assert math.isclose(only_bandwidth.ring_all_reduce(sockets, 100.0), moved)
    assert math.isclose(only_bandwidth.halving_all_reduce(sockets, 100.0), moved)
    assert math.isclose(2 * only_bandwidth.all_gather(sockets, 100.0), moved)
