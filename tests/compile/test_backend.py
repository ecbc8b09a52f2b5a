"""torch.compile(backend="cpuaccel"): how it is found, configured and disabled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from _process import run_python
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, normed, seen
from cpuaccel.compile.common import report

pytestmark = needs_onednn


def _model() -> Any:
    return normed(4, 8)


def _x(size: int = 9) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 4, size, size)


def test_it_is_found_without_an_import(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.Conv2d(8, 8, 3)).eval()\n"
        "with torch.no_grad():\n"
        "    compiled = torch.compile(model, backend='cpuaccel')\n"
        "    x = torch.randn(1, 4, 9, 9)\n"
        "    torch.testing.assert_close(compiled(x), model(x))\n"
        "from cpuaccel.compile.common import report\n"
        "print(report.reports()[0].kinds())\n"
    )
    said = run_python(code, cwd=tmp_path, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert said == "[('Convolution',), ('Convolution',)]"


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_modes(mode: str) -> None:
    assert seen(_model(), _x(), mode=mode).kinds() == [("Convolution", "ReLU")]


def test_an_unknown_mode_raises() -> None:
    with pytest.raises(Exception, match="mode: expected one of default"):
        seen(_model(), _x(), mode="fastest")


def test_options_are_inductors() -> None:
    assert seen(_model(), _x(), options={"cpp.threads": 1}).regions


def test_a_training_graph_is_inductors() -> None:
    model = _model().train()
    report.clear()
    torch._dynamo.reset()
    x = _x()
    result = torch.compile(model, backend="cpuaccel")(x)
    result.sum().backward()
    assert report.reports() == []
    assert any("gradients" in reason for reason in cpuaccel.stats()["fallbacks"])
    assert model.conv.weight.grad is not None


def test_inference_mode() -> None:
    model = _model()
    with torch.inference_mode():
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model, backend="cpuaccel")(_x()), model(_x()))


def test_the_two_switches() -> None:
    model = _model()
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel")
        expected = compiled(_x())
        cpuaccel.reset_stats()
        cpuaccel.disable()
        try:
            torch.testing.assert_close(compiled(_x()), expected)
            assert cpuaccel.stats()["calls"].get("graph_region.cpuaccel", 0) == 0
        finally:
            cpuaccel.enable()
        compiled(_x())
        assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 1


def test_explain_names_partitions_and_fallbacks() -> None:
    model = Lambda(lambda self, x: torch.cumsum(F.relu(self.conv(x)), 1), conv=nn.Conv2d(4, 8, 3))
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model.eval(), backend="cpuaccel")
        assert cpuaccel.explain(compiled).rows == []
        compiled(_x())
    (row,) = cpuaccel.explain(compiled).rows
    assert (row.op, row.provider, row.problem) == ("Convolution+ReLU", "onednn", "float32")
    assert row.reason


def test_dynamic_sizes() -> None:
    model = _model()
    with torch.no_grad():
        torch._dynamo.reset()
        report.clear()
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
        for size in (9, 12, 17, 33):
            torch.testing.assert_close(compiled(_x(size)), model(_x(size)), atol=1e-5, rtol=1e-4)
    assert len(report.reports()) == 1


def test_a_pass_of_the_users_still_runs() -> None:
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Counting(CustomGraphPass):
        calls = 0

        def __call__(self, graph: torch.fx.Graph) -> None:
            Counting.calls += 1

        def uuid(self) -> str:
            return "counting"

    with config.patch(post_grad_custom_pre_pass=Counting(), force_disable_caches=True):
        assert seen(_model(), _x()).regions
    assert Counting.calls == 1


@pytest.mark.caches
def test_inductors_caches_do_not_mix_backends() -> None:
    model = _model()
    with torch.no_grad():
        for backend in ("inductor", "cpuaccel", "inductor"):
            torch._dynamo.reset()
            cpuaccel.reset_stats()
            torch.compile(model, backend=backend)(_x())
            calls = cpuaccel.stats()["calls"].get("graph_region.cpuaccel", 0)
            assert calls == (backend == "cpuaccel")


def test_batch_and_tokens_both_dynamic() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)).eval()
    with torch.no_grad():
        torch._dynamo.reset()
        report.clear()
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
        for batch, tokens in ((4, 7), (3, 9), (5, 2)):
            x = torch.randn(batch, tokens, 16)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)
    (one,) = report.reports()
    assert one.kinds() == [("MatMul", "GELU"), ("MatMul",)]


def test_a_view_knows_which_of_its_sizes_is_dynamic() -> None:
    """The eight rows are also a multiple of four tokens."""

    def block(self: Any, x: Tensor) -> Tensor:
        heads = self.up(x).view(8, x.shape[1], 4, 6).permute(0, 2, 1, 3)
        return self.down(heads.permute(0, 2, 1, 3).reshape(8, x.shape[1], 24))

    torch.manual_seed(0)
    model = Lambda(block, up=nn.Linear(16, 24), down=nn.Linear(24, 16)).eval()
    with torch.no_grad():
        torch._dynamo.reset()
        report.clear()
        compiled = torch.compile(model, backend="cpuaccel")
        for tokens in (4, 5, 8, 12):
            x = torch.randn(8, tokens, 16)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)
    (one,) = report.reports()
    assert ("view",) in one.kinds()


@pytest.mark.caches
def test_a_graph_from_the_disk_is_explained_too(tmp_path: Path) -> None:
    script = (
        "import torch, cpuaccel\n"
        "torch.manual_seed(0)\n"
        "layers = torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3)\n"
        "model = torch.nn.Sequential(*layers).eval()\n"
        "with torch.no_grad():\n"
        "    compiled = torch.compile(model, backend='cpuaccel')\n"
        "    x = torch.randn(1, 16, 28, 28)\n"
        "    torch.testing.assert_close(compiled(x), model(x))\n"
        "print(cpuaccel.explain(compiled))\n"
        "print(torch._dynamo.utils.counters['aot_autograd']['autograd_cache_hit'])\n"
    )
    said = [
        run_python(script, cwd=tmp_path, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).splitlines()
        for _ in range(2)
    ]
    assert [lines[-1] for lines in said] == ["0", "1"]
    for lines in said:
        assert any("Convolution+ReLU" in line for line in lines), lines
