"""The tuning cache of plans, in memory and on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _int8_models
from compile._compiled import needs_onednn, needs_vnni
from compile._slices import SLICED
from cpuaccel import _native, _tuning_cache, config

pytestmark = [needs_onednn, needs_vnni]

_ROWS = 4
"""What is found for two layers: the provider, and which of oneDNN's implementations."""


def _model() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(1, 24, 10, 10)
    net = nn.Sequential(nn.Conv2d(24, 72, 3, padding=1), nn.ReLU(), nn.Conv2d(72, 96, 1)).eval()
    return _int8_models.static(net, x), x


def _quanta(result: Tensor, expected: Tensor) -> int:
    """The largest difference in quanta of `expected`."""
    quantum = expected.unique().diff().min()
    return round(float((result - expected).abs().max() / quantum))


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    _native.load().set_tuning_results({})
    monkeypatch.setattr(_tuning_cache, "_written", None)


def test_timed_problems_are_saved_and_loaded(
    tuning_cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = _model()
    expected = model(x)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    assert _quanta(optimized(x), expected) <= 1  # another provider may round differently
    found = _native.load().tuning_results()
    assert len(found) == _ROWS
    assert all(0 <= rank % SLICED < 3 for rank in found.values())
    assert tuning_cache_file.read_text().splitlines()[0] == "problem,rank"
    assert [each.name for each in tuning_cache_file.parent.iterdir()] == [tuning_cache_file.name]

    _forget(monkeypatch)
    _tuning_cache.load()
    assert _native.load().tuning_results() == found


@pytest.mark.parametrize("rank", [0, 1, 2, 15])
@pytest.mark.usefixtures("tuning_cache_file")
def test_each_rank_runs(rank: int) -> None:
    model, x = _model()
    expected = model(x)
    cpuaccel.optimize(model, (x,), time_budget=0)
    names = _native.load().tuning_results()
    _native.load().set_tuning_results(dict.fromkeys(names, rank))
    cpuaccel.clear_caches()
    optimized = cpuaccel.optimize(_model()[0], (x,), time_budget=0)
    assert _native.load().tuning_results() == dict.fromkeys(names, rank)
    # The results are set, not timed: each implementation rounds differently. There is no 15th.
    assert _quanta(optimized(x), expected) <= 1


def test_other_processes_rows_stay(tuning_cache_file: Path) -> None:
    _tuning_cache.load()
    tuning_cache_file.parent.mkdir()
    tuning_cache_file.write_text("problem,rank\nconv of another process,1\n")
    model, x = _model()
    cpuaccel.optimize(model, (x,), time_budget=0)
    lines = tuning_cache_file.read_text().splitlines()
    assert "conv of another process,1" in lines
    assert len(lines) == 2 + _ROWS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no table", "expected the columns problem,rank"),
        ("problem,rank\na,199\n", "line 2: rank: expected 0 to 127, got 199"),
        ("problem,rank\n,1\n", "line 2: problem: expected a text, got an empty one"),
        ("problem,rank\na\n", "line 2: expected 2 values"),
    ],
)
def test_a_damaged_file_is_said_and_written_anew(
    tuning_cache_file: Path, text: str, problem: str
) -> None:
    tuning_cache_file.parent.mkdir()
    tuning_cache_file.write_text(text)
    with pytest.warns(RuntimeWarning, match=re.escape(problem)):
        _tuning_cache.load()
    model, x = _model()
    with pytest.warns(RuntimeWarning, match=re.escape(problem)):
        cpuaccel.optimize(model, (x,), time_budget=0)
    assert len(tuning_cache_file.read_text().splitlines()) == 1 + _ROWS


def test_a_folder_that_cannot_be_written_is_no_error(
    tuning_cache_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("")
    config.set("ranks", str(tmp_path / "a file" / "ranks.csv"))
    model, x = _model()
    cpuaccel.optimize(model, (x,), time_budget=0)
    assert len(_native.load().tuning_results()) == _ROWS


def test_deterministic_times_and_reads_nothing(tuning_cache_file: Path) -> None:
    config.set("deterministic", True)
    tuning_cache_file.parent.mkdir()
    tuning_cache_file.write_text("no table")
    model, x = _model()
    cpuaccel.optimize(model, (x,), time_budget=0)
    assert _native.load().tuning_results() == {}
    assert tuning_cache_file.read_text() == "no table"
