"""cpuaccel.save and cpuaccel.load: a file gives the same numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import cpuaccel
from compile import _int8_models
from compile._compiled import Lambda, Net, needs_onednn, randomized
from compile._structured import image as _x
from compile._structured import net as _net
from cpuaccel.compile.package import archive

pytestmark = needs_onednn


def _int8() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    net = Net(
        lambda self, x: self.head(F.relu(self.conv(x) + x).mean((2, 3))),
        conv=nn.Conv2d(8, 8, 3, padding=1),
        head=nn.Linear(8, 4),
    )
    x = torch.randn(2, 8, 9, 9)
    with torch.no_grad():
        return _int8_models.static(randomized(net).eval(), x), x


def _encoder() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 5, 32)


def _cnn() -> tuple[nn.Module, Tensor]:
    return _net(), _x()


_MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "cnn": _cnn,
    "int8": _int8,
    "encoder": _encoder,
}


@pytest.mark.parametrize("name", _MODELS)
def test_the_same_bits_come_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    model, x = _MODELS[name]()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    loaded = cpuaccel.load(tmp_path / "model.pt2")
    calls = cpuaccel.stats()["calls"]
    with torch.no_grad():
        found, expected = loaded(x), optimized(x)
    for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
    assert cpuaccel.stats()["calls"] != calls, "ours ran"
    assert loaded.reports[0].kinds() == optimized.reports[0].kinds() != []
    assert cpuaccel.explain(loaded).rows == cpuaccel.explain(optimized).rows
    assert list(tmp_path.iterdir()) == [tmp_path / "model.pt2"]


class _Counting(nn.Module):
    """A model that mutates its state."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return self.conv(x) * self.calls


def test_a_model_that_mutates_its_buffers(tmp_path: Path) -> None:
    optimized = cpuaccel.optimize(_Counting().eval(), (_x(),), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    loaded = cpuaccel.load(tmp_path / "model.pt2")
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(loaded(_x()), optimized(_x()))


def test_a_graph_with_branches_is_loaded_by_torch(tmp_path: Path) -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        y = self.conv(x)
        return torch.cond(x.sum() > 0, torch.relu, torch.neg, (y,))

    model = Lambda(of, conv=nn.Conv2d(3, 4, 3)).eval()
    optimized = cpuaccel.optimize(model, (_x(),), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    loaded = cpuaccel.load(tmp_path / "model.pt2")
    assert loaded.facts["flat"] is None
    with torch.no_grad():
        for x in (_x().abs(), -_x().abs()):
            assert torch.equal(loaded(x), optimized(x))


def test_torch_is_not_asked_for_any_other(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.export, "load")
    net = _net()
    with torch.no_grad():
        found = cpuaccel.load(saved)(_x())["scores"]
        torch.testing.assert_close(found, net(_x())["scores"], atol=1e-5, rtol=1e-4)


def test_of_several_calls_the_last(tmp_path: Path) -> None:
    optimized = cpuaccel.optimize(_net(), (_x(),), time_budget=0)
    with torch.no_grad():
        expected = optimized(_x(5), scale=2.0)
    cpuaccel.save(optimized, tmp_path / "net.pt2")
    found = cpuaccel.load(tmp_path / "net.pt2")(_x(5), scale=2.0)
    assert torch.equal(found["scores"], expected["scores"])


def test_the_weights_are_in_it_once_and_plain(saved: Path) -> None:
    loaded, net = cpuaccel.load(saved), _net()
    ours, plain = dict(loaded.named_buffers()), net.state_dict()
    assert ours
    for name, weight in ours.items():
        assert torch.equal(weight, plain[name.removeprefix("_run.")])
    assert saved.stat().st_size < 200_000


def test_saving_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "net.pt2")
    with torch.no_grad():
        net.linear.bias.add_(1)  # type: ignore[union-attr,operator]
        found, expected = optimized(_x())["scores"], net(_x())["scores"]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert all(each.requires_grad for each in net.parameters())


def test_weights_may_be_written_to(saved: Path) -> None:
    loaded = cpuaccel.load(saved)
    before = loaded(_x())["scores"]
    dict(loaded.named_buffers())["_run.linear.bias"].add_(1)
    torch.testing.assert_close(loaded(_x())["scores"], before + 1)


def test_torch_reads_it_too(saved: Path) -> None:
    program = torch.export.load(saved)
    assert any("graph_region" in str(node.target) for node in program.graph.nodes)
    with torch.no_grad():
        found = program.module()(_x())["scores"]
    assert torch.equal(found, cpuaccel.load(saved)(_x())["scores"])


def test_switched_off_it_is_torchs(saved: Path) -> None:
    with cpuaccel.enabled(False), torch.no_grad():
        found = cpuaccel.load(saved)(_x())["scores"]
        torch.testing.assert_close(found, _net()(_x())["scores"], atol=1e-5, rtol=1e-4)


def test_threads_may_share_it(saved: Path) -> None:
    loaded = cpuaccel.load(saved)
    inputs = [_x() * scale for scale in range(8)]
    expected = [loaded(x)["scores"] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for a, b in zip(pool.map(loaded, inputs), expected, strict=True):
                assert torch.equal(a["scores"], b)


def test_another_layout_is_copied(saved: Path) -> None:
    loaded = cpuaccel.load(saved)
    cpuaccel.reset_stats()
    found = loaded(_x().to(memory_format=torch.channels_last))
    assert torch.equal(found["scores"], loaded(_x())["scores"])
    assert any("other strides" in reason for reason in cpuaccel.stats()["fallbacks"])


@pytest.fixture
def writing(tmp_path: Path) -> Path:
    """A program that mutates the first of its two inputs."""
    net = Lambda(
        lambda self, x, y: F.relu(self.conv(x.add_(1))) + y.mean(), conv=nn.Conv2d(3, 4, 3)
    )
    path = tmp_path / "writes.pt2"
    cpuaccel.save(cpuaccel.optimize(net.eval(), (_x(), _x()), time_budget=0), path)
    return path


def test_mutations_are_copied_back(writing: Path) -> None:
    loaded, x, y = cpuaccel.load(writing), _x(), _x() + 1
    other = x.to(memory_format=torch.channels_last)
    expected = loaded(x, y)
    assert torch.equal(x, _x() + 1)
    assert torch.equal(loaded(other, y), expected)
    assert torch.equal(other, x)


def test_mutated_arguments_share_no_memory(writing: Path) -> None:
    loaded, x = cpuaccel.load(writing), _x()
    for same in (x, x.to(memory_format=torch.channels_last)):
        with pytest.raises(ValueError, match=r"writes\.pt2: it mutates argument 0: .*no memory"):
            loaded(same, same)
        assert torch.equal(same, _x())


def test_numbers_that_share_memory(tmp_path: Path) -> None:
    net = Net(lambda self, x: F.relu(self.conv(x)), conv=nn.Conv2d(3, 4, 3)).eval()
    x = torch.randn(1, 3, 12, 12).expand(2, 3, 12, 12)
    cpuaccel.save(cpuaccel.optimize(net, (x,), time_budget=0), tmp_path / "net.pt2")
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), net(x))
    with pytest.raises(ValueError, match=r"net\.pt2: argument 0: expected strides \[0, 144, "):
        loaded(x.contiguous())


def test_autocast_is_part_of_the_call(tmp_path: Path) -> None:
    net = _net()
    with torch.autocast("cpu", torch.bfloat16):
        optimized = cpuaccel.optimize(net, (_x(),), time_budget=0)
        with torch.no_grad():
            expected = optimized(_x())["scores"]
    cpuaccel.save(optimized, tmp_path / "net.pt2")
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loaded(_x())["scores"], expected)
    with pytest.raises(ValueError, match="autocast: expected bfloat16, got off"):
        loaded(_x())


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((_x(3),), {}, r"argument 0: expected float32 \[2, 3, 12, 12\], got float32 \[3, 3, "),
        ((_x().double(),), {}, r"expected float32 \[2, 3, 12, 12\], got float64 \[2, 3, 12, 12\]"),
        ((_x().to("meta"),), {}, r"got float32 \[2, 3, 12, 12\] on meta"),
        ((1.5,), {}, r"argument 0: expected float32 \[2, 3, 12, 12\], got 1\.5"),
        ((), {}, r"expected arguments \(float32 \[2, 3, 12, 12\]\), got \(\)"),
        ((_x(),), {"scale": 2.0}, r"got \(float32 \[2, 3, 12, 12\], scale=2\.0\)"),
    ],
    ids=["size", "type", "device", "no tensor", "too few", "one more"],
)
def test_other_calls_raise(
    saved: Path, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    loaded = cpuaccel.load(saved)
    with pytest.raises(ValueError, match=rf"net\.pt2: .*{message}"):
        loaded(*args, **kwargs)


def test_an_argument_is_its_type_too(tmp_path: Path) -> None:
    optimized = cpuaccel.optimize(_net(), (_x(), 1.0), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "net.pt2")
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    loaded(_x(), 1.0)
    for other in (1, True, 2.0):
        with pytest.raises(ValueError, match=rf"argument 1: expected 1\.0, got {other}"):
            loaded(_x(), other)


def test_it_is_for_inference(saved: Path) -> None:
    loaded = cpuaccel.load(saved)
    assert loaded.eval() is loaded
    with pytest.raises(RuntimeError, match=r"net\.pt2: a loaded model is for inference only"):
        loaded.train()
    with pytest.raises(RuntimeError, match="under torch"):
        loaded(_x().requires_grad_())
    with pytest.raises(TypeError, match=r"net\.pt2: a loaded model cannot be pickled"):
        pickle.dumps(loaded)
    other = copy.deepcopy(loaded)
    assert torch.equal(other(_x())["scores"], loaded(_x())["scores"])


def test_models_that_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    net = _net()
    with pytest.raises(TypeError, match=r"optimized: expected the result of cpuaccel\.optimize"):
        cpuaccel.save(net, path)
    optimized = cpuaccel.optimize(net, (_x(),), time_budget=0)
    bad_path = r"path: expected a path that ends in \.pt2, got .*net\.onnx"
    with pytest.raises(ValueError, match=bad_path):
        cpuaccel.save(optimized, tmp_path / "net.onnx")
    net.linear = nn.Linear(16, 10)
    unsaved = "nothing to save: it has no capture of the model as it is now: call it once"
    with pytest.raises(ValueError, match=unsaved):
        cpuaccel.save(optimized, path)

    def of(self: Any, x: Tensor) -> Tensor:
        return self.conv(x) if float(x.sum()) > 0 else self.conv(-x)

    model = Lambda(of, conv=nn.Conv2d(3, 4, 3)).eval()
    uncaptured = cpuaccel.optimize(model, (_x(),), time_budget=0)
    with pytest.raises(ValueError, match="nothing to save: not captured: "):
        cpuaccel.save(uncaptured, path)
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError("no space left")

    before = saved.read_bytes()
    monkeypatch.setattr(archive, "seal", full)
    with pytest.raises(OSError, match="no space left"):
        cpuaccel.save(cpuaccel.optimize(_net(), (_x(),), time_budget=0), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
