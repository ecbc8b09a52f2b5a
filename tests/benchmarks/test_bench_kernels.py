"""Reads and shows the CSV file of the kernel benchmark's program."""

import io

import pytest
from rich.console import Console

from benchmarks.ops import kernels
from benchmarks.ops._kernel_results import by_family, read, table_of

_HEADER = (
    "family,shape,row,isa,seconds,first_quartile,third_quartile,rounds,work,unit,"
    "peak_seconds,bound_seconds"
)
_LINES = [
    _HEADER,
    'peaks,"clock",ref,ref,1e-4,1e-4,1e-4,5,3e5,GHz,0,0',
    'peaks,"read L1",x86_avx2,avx2,1e-4,1e-4,1e-4,5,1e7,GB/s,0,0',
    'conv,"3x3, 64",x86_avx2,avx2,2e-5,1e-5,3e-5,5,8e5,GMAC/s,1e-5,1.5e-5',
    'conv,"3x3, 64",ref,ref,2e-3,2e-3,2e-3,5,8e5,GMAC/s,0,0',
]


def test_families_keep_their_order():
    families = by_family(read(_LINES))
    assert list(families) == ["peaks", "conv"]
    assert [row.row for row in families["conv"]] == ["x86_avx2", "ref"]


def test_rates_and_shares():
    clock, bandwidth, fast, slow = read(_LINES)
    assert (clock.rate, clock.unit) == (pytest.approx(3), "GHz")
    assert (bandwidth.rate, bandwidth.unit) == (pytest.approx(100), "GB/s")
    assert (fast.rate, fast.unit) == (pytest.approx(40), "GMAC/s")
    assert fast.peak_share == pytest.approx(0.5)
    assert fast.bound_share == pytest.approx(0.75)
    assert (slow.peak_share, slow.bound_share) == (None, None)
    assert fast.to_dict()["median_us"] == pytest.approx(20.0)


def test_table_shows_shares_and_each_shape_once():
    text = io.StringIO()
    Console(file=text, width=120).print(table_of(by_family(read(_LINES))["conv"]))
    shown = text.getvalue()
    assert shown.count("3x3, 64") == 1
    assert "50%" in shown
    assert "75%" in shown
    assert "40.0 GMAC/s" in shown


def test_table_of_peaks_has_no_shares():
    text = io.StringIO()
    Console(file=text, width=120).print(table_of(by_family(read(_LINES))["peaks"]))
    assert "of peak" not in text.getvalue()


def test_a_failed_build_step_ends_with_what_it_printed():
    with pytest.raises(SystemExit, match=r"failed:\nbroken"):
        kernels._call("sh", "-c", "echo broken; exit 3")
