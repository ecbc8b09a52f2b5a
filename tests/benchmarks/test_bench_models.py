"""The list of benchmarked models, and both command lines from end to end on small inputs."""

import json

import pytest
import torch

from benchmarks import _plugin, _torchvision
from benchmarks.models import int8_fx
from benchmarks.ops import qconv_providers

_SMALL = "mobilenet_v3_small"


def test_at_least_twenty_distinct_models():
    names = [model.name for model in _torchvision.MODELS]
    assert len(set(names)) == len(names) >= 20


def test_build_is_repeatable_and_not_degenerate():
    first, second = _torchvision.build(_SMALL), _torchvision.build(_SMALL)
    assert not first.training
    weights = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
    with torch.inference_mode():
        scores = first(_torchvision.images(_SMALL, 4, seed=1))
    assert scores.isfinite().all()
    assert scores.std(0).mean() > 1e-3


def test_build_keeps_the_random_state():
    before = torch.get_rng_state()
    _torchvision.build(_SMALL)
    assert torch.equal(before, torch.get_rng_state())


def test_unknown_names_end_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        int8_fx.main(["--models", "nothing"])
    assert "unknown model 'nothing'; known: alexnet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        int8_fx.main(["--engines", "nothing"])
    assert "unknown engine 'nothing'; known: fp32" in capsys.readouterr().err


def test_int8_fx_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    engines = ["fp32", "fbgemm", "x86", "cpuaccel"]
    flags = ["--models", _SMALL, "--engines", ",".join(engines), "--rounds", "1"]
    int8_fx.main([*flags, "--json", str(path)])
    document = json.loads(path.read_text())
    columns = engines[:3] if _plugin.missing() else engines
    assert document["columns"] == columns
    (row,) = document["rows"]
    assert set(row["times"]) == set(columns)
    if "cpuaccel" in columns:
        assert row["calls"]["cpuaccel"]
    assert "geomean" in capsys.readouterr().out


def test_qconv_providers_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    qconv_providers.main(["--every", "150", "--rounds", "1", "--json", str(path)])
    document = json.loads(path.read_text())
    assert document["groups"]
    assert all("intree.fbgemm" in shape["times"] for shape in document["shapes"])
    assert "over" in capsys.readouterr().out
