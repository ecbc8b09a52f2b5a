"""benchmarks.models.coverage, from end to end on a small model."""

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from benchmarks import _plugin
from benchmarks.models import _compiled, _coverage_check, _peers, coverage
from benchmarks.models._coverage_case import Case, Inputs, tensors_of

needs_backend = pytest.mark.skipif(
    bool(_compiled.backend_missing()), reason=_compiled.backend_missing()
)


def _net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1))


def _image(generator: torch.Generator) -> Inputs:
    return Inputs((torch.randn(2, 3, 8, 8, generator=generator),))


class _Strays(nn.Module):
    """A model that computes another function when it is compiled."""

    def forward(self, x):
        return x + 1e-3 * torch.compiler.is_compiling()


class _Breaks(nn.Module):
    def forward(self, x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2


class _IsNotCaptured(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling():
            raise ValueError("eager runs this one")
        return x


class _Constant(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


@needs_backend
def test_end_to_end(tmp_path, capsys, monkeypatch):
    known = {
        "net": Case("net", _net, _image),
        "gone": Case("gone", _net, _image, ("surely_absent",)),
    }
    monkeypatch.setattr(coverage, "cases", lambda: known)
    path = tmp_path / "out.json"
    coverage.main(["--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [(row["name"], row["mode"]) for row in rows] == [("net", "fp32"), ("net", "bf16")]
    for row in rows:
        assert row["compiles"]
        assert row["matches"], row["problem"]
        assert (row["graphs"], row["breaks"]) == (1, {})
    assert (rows[0]["regions"], rows[0]["partitions"]) == (1, 2)
    out = capsys.readouterr().out
    assert "1 of 1 compile and match in fp32 (1 compile)" in out
    assert "not measured: gone: surely_absent not installed: pip install" in out


@needs_backend
def test_through_optimize_and_in_int8(tmp_path, capsys, monkeypatch):
    known = {
        "net": Case("net", _net, _image, quantizes=True),
        "floats": Case("floats", _net, _image),
    }
    monkeypatch.setattr(coverage, "cases", lambda: known)
    for through, done in (("optimize", "run a plan"), ("compile", "compile")):
        path = tmp_path / f"{through}.json"
        coverage.main(["--through", through, "--mode", "fp32,int8", "--json", str(path)])
        rows = json.loads(path.read_text())["rows"]
        found = [(row["name"], row["mode"], row["through"]) for row in rows]
        assert found == [(*each, through) for each in _WANTED]
        for row in rows:
            assert row["matches"], row["problem"]
            assert (row["graphs"], row["regions"]) == (1, 1)
        out = capsys.readouterr().out
        assert f"2 of 2 {done} and match in fp32 (2 {done})" in out
        assert f"1 of 1 {done} and match in int8 (1 {done})" in out


_WANTED = (("net", "fp32"), ("net", "int8"), ("floats", "fp32"))


@needs_backend
def test_what_optimize_refuses_is_no_match(monkeypatch):
    from cpuaccel.compile.frontend import capture_maker

    def fail(*_):
        raise KeyError("a fault")

    monkeypatch.setattr(capture_maker, "capture", fail)
    found = _outcome(_net, "optimize")
    assert not found.compiles
    assert "not captured: 'a fault'" in found.problem


def _outcome(model: Callable[[], nn.Module], through: str = "compile") -> _coverage_check.Outcome:
    return _coverage_check.check(Case("m", model, _image), "fp32", through)


@needs_backend
def test_what_strays_is_no_match():
    found = _outcome(_Strays)
    assert found.compiles
    assert not found.matches
    assert found.error > found.allowed
    assert found.problem.startswith("output 0: error")


@needs_backend
def test_what_runs_in_eager_does_not_compile():
    found = _outcome(_IsNotCaptured)
    assert not found.compiles
    assert not found.matches
    assert found.problem == "cpuaccel's pass took part in 0 of 0 graphs"


@needs_backend
def test_a_graph_that_the_pass_fails_on_does_not_compile(monkeypatch):
    def fail(graph):
        raise KeyError("a fault")

    monkeypatch.setattr("cpuaccel.compile.frontend.inductor_pass.rewrite", fail)
    found = _outcome(_net)
    assert not found.compiles
    assert found.problem == "cpuaccel's pass took part in 0 of 1 graphs"


def test_what_fails_is_an_outcome():
    def build():
        raise ValueError("not this one\nand why")

    found = _outcome(build)
    assert not found.compiles
    assert found.problem == "ValueError: not this one"


@needs_backend
def test_nothing_is_compared_where_all_is_the_same():
    found = _outcome(_Constant)
    assert found.compiles
    assert not found.matches
    assert found.problem == "output 0: eager's is 0 everywhere"


@needs_backend
def test_breaks_are_counted():
    found = _outcome(_Breaks)
    assert found.matches
    assert found.graphs == 2
    assert sum(found.breaks.values()) == 1


def test_tensors_of_what_models_return():
    a, b, c = torch.ones(3, 1).unbind()
    found = tensors_of({"x": a, "nested": (b, [c, None]), "no": 3})
    assert [each is one for each, one in zip(found, (a, b, c), strict=True)] == [True] * 3


def test_models_have_no_weights_that_hide_a_fault():
    norm = Case("m", lambda: nn.BatchNorm2d(3), _image).model()
    assert all(len(weight.unique()) == 3 for weight in norm.parameters())
    assert not norm.training


def test_inputs_differ_and_are_the_same_each_time():
    case = Case("m", _net, _image)
    (first, second), (again, _) = case.some_inputs(2), case.some_inputs(2)
    assert not torch.equal(first.args[0], second.args[0])
    assert torch.equal(first.args[0], again.args[0])


def test_more_than_forty_models_are_known():
    known = coverage.cases()
    assert len(known) > 40
    assert {"sam_vit_b", "sam_vit_b_block_masks", "unet_down_block"} <= set(known)


def test_unknown_models_and_modes(capsys):
    for flags, known in (
        (["--models", "nothing"], "unknown model 'nothing'; known: alexnet"),
        (["--mode", "nothing"], "unknown mode 'nothing'; known: fp32, bf16"),
    ):
        with pytest.raises(SystemExit):
            coverage.main(flags)
        assert known in capsys.readouterr().err


def test_without_the_backend_nothing_runs(monkeypatch):
    monkeypatch.setattr(_plugin, "missing", lambda: "cpuaccel is not installed")
    with pytest.raises(SystemExit, match="nothing to measure: cpuaccel is not installed"):
        coverage.main([])


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(_peers.importlib.util, "find_spec", lambda name: None)
    reason = coverage.cases()["bert"].missing()
    assert reason == "transformers not installed: pip install -r requirements/peers.txt"
