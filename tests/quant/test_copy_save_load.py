"""Copied, saved and loaded models stay on the engine, and their files are torch's own."""

from __future__ import annotations

import copy
import functools
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from _reference import Geometry
from _strategies import ConvCase, LinearCase, Values
from torch import Tensor, nn

from quant import _child
from quant import _models as m
from quant._engine import INTREE, Counts, counted, needs_front_end, running
from quant._layers import Q, assert_same_weight, conv_op, pack_conv, pack_linear
from quant._saved import through_file, through_pickle, through_script

_TESTS = Path(__file__).resolve().parents[1]
backends = pytest.mark.parametrize(
    "backend", [INTREE, pytest.param("auto", marks=needs_front_end)], ids=["intree", "ours"]
)


def _through_state(model: nn.Module, kind: str) -> nn.Module:
    # Other weights and scales, so that a load without effect would be noticed.
    other, _ = m.build(kind, seed=8)
    other.load_state_dict(through_file(model.state_dict()))
    return other


_PATHS: dict[str, Callable[[nn.Module, Tensor, str], nn.Module]] = {
    "deepcopy": lambda model, x, kind: copy.deepcopy(model),
    "copy of a copy": lambda model, x, kind: copy.deepcopy(copy.deepcopy(model)),
    "state_dict": lambda model, x, kind: _through_state(model, kind),
    "pickle": lambda model, x, kind: through_pickle(model),
    "torch.save": lambda model, x, kind: through_file(model),
    "script": lambda model, x, kind: torch.jit.script(model),
    "script, saved": lambda model, x, kind: through_script(torch.jit.script(model)),
    "script, saved, copied": lambda model, x, kind: copy.deepcopy(
        through_script(torch.jit.script(model))
    ),
    "script, frozen, saved": lambda model, x, kind: through_script(
        torch.jit.freeze(torch.jit.script(model.eval()))
    ),
    "trace, saved": lambda model, x, kind: through_script(
        torch.jit.trace(model, x, check_trace=False)
    ),
}
# torch's quantized convolution modules are unpickled without nn.Module's attributes, because
# _ConvNd.__setstate__ does not call its __init__. cpuaccel repairs that.
_TORCH_CANNOT = {
    (INTREE, kind, path)
    for kind in ("conv1d", "conv2d", "conv3d")
    for path in ("pickle", "torch.save")
}
_COMBINATIONS = [
    pytest.param(backend, kind, path, id=f"{kind}-{path}-{name}", marks=marks)
    for backend, name, marks in ((INTREE, "intree", ()), ("auto", "ours", needs_front_end))
    for kind in m.KINDS
    for path in _PATHS
    if (backend, kind, path) not in _TORCH_CANNOT
]


@pytest.mark.parametrize(("backend", "kind", "path"), _COMBINATIONS)
def test_the_same_output_on_the_same_engine(backend: str, kind: str, path: str) -> None:
    with running(backend), m.quiet(), torch.no_grad():
        model, x = _built(backend, kind)
        with counted() as direct:
            expected = m.first(model(x))
        result = _PATHS[path](model, x, kind)
        with counted() as counts:
            actual = m.first(result(x))
    assert torch.equal(actual, expected)
    assert counts.without_copies() == direct.without_copies()
    if backend != INTREE:
        _assert_ours(counts, m.KINDS[kind].op)


@functools.cache
def _built(backend: str, kind: str) -> tuple[nn.Module, Tensor]:
    """Packed for `backend`, which runs at the first call; nothing changes the model."""
    return m.build(kind)


def _assert_ours(counts: Counts, op: str) -> None:
    assert counts.ours(op) > 0, f"{op} did not run on the plugin's engine: {counts}"
    assert counts.intree() == 0
    assert not counts.fallbacks


@backends
@pytest.mark.parametrize("through", [pickle.dumps, None], ids=["pickle", "torch.save"])
def test_a_convolution_module_of_its_own(backend: str, through: Callable | None) -> None:
    with running(backend), m.quiet():
        module = m.eager_static(m.seeded(m.Stubbed), m.image()).conv
        x = torch.quantize_per_tensor(m.image(), 0.05, 64, torch.quint8)
        expected = module(x)
        loaded = pickle.loads(through(module)) if through else through_file(module)
        with counted() as counts:
            # Not called as a module, see _TORCH_CANNOT.
            actual = loaded.forward(x)
    assert torch.equal(actual.int_repr(), expected.int_repr())
    if backend != INTREE:
        _assert_ours(counts, "conv2d")


def _conv_case(dims: int, transposed: bool, per_channel: bool, bias: bool) -> ConvCase:
    geometry = Geometry(
        stride=(2,) * dims,
        padding=(1,) * dims,
        dilation=(1,) * dims,
        groups=2,
        output_padding=(1,) * dims if transposed else (),
        transposed=transposed,
    )
    values = Values(seed=dims, x_zero_point=5, per_channel=per_channel, symmetric=False, bias=bias)
    return ConvCase(2, 4, 6, (3,) * dims, (6,) * dims, geometry, "contiguous", values)


_CONVS = [(d, False, p, b) for d in (1, 2, 3) for p in (False, True) for b in (False, True)]
_CONVS += [(d, True, False, b) for d in (1, 2, 3) for b in (False, True)]
_COPIES: dict[str, Callable] = {
    "deepcopy": copy.deepcopy,
    "pickle": through_pickle,
    "torch.save": through_file,
}
copies = pytest.mark.parametrize("how", _COPIES)


@backends
@copies
@pytest.mark.parametrize(("dims", "transposed", "per_channel", "bias"), _CONVS)
def test_packed_convolutions(
    backend: str, how: str, dims: int, transposed: bool, per_channel: bool, bias: bool
) -> None:
    case = _conv_case(dims, transposed, per_channel, bias)
    with running(backend):
        packed = pack_conv(case)
        op = conv_op(case)
        expected = op(case.x, packed, 0.3, 50)
        again = _COPIES[how](packed)
        with counted() as counts:
            actual = op(case.x, again, 0.3, 50)
    assert torch.equal(actual.int_repr(), expected.int_repr())
    if backend != INTREE:
        assert counts.calls, "the copy is an object of torch's"


@backends
@copies
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_linears(backend: str, how: str, per_channel: bool, bias: bool) -> None:
    values = Values(seed=4, x_zero_point=5, per_channel=per_channel, symmetric=False, bias=bias)
    case = LinearCase((3,), 20, 12, "contiguous", values)
    with running(backend):
        packed = pack_linear(case)
        expected = Q.linear(case.x, packed, 0.3, 50)
        again = _COPIES[how](packed)
        with counted() as counts:
            actual = Q.linear(case.x, again, 0.3, 50)
    assert torch.equal(actual.int_repr(), expected.int_repr())
    if backend != INTREE:
        _assert_ours(counts, "linear")


@needs_front_end
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_pickled_bytes_are_torchs(per_channel: bool) -> None:
    """The file is the same, whoever packed it, and has torch's format of many years."""
    linear = LinearCase((1,), 8, 6, "contiguous", Values(seed=4, per_channel=per_channel))
    conv = _conv_case(2, False, per_channel, True)
    states = []
    for backend in (INTREE, "auto"):
        with running(backend):
            states.append([p.__getstate__() for p in (pack_linear(linear), pack_conv(conv))])
    for torchs, own in zip(*states, strict=True):
        _assert_same_state(torchs, own)


def _assert_same_state(torchs: object, own: object) -> None:
    assert type(torchs) is type(own)
    if isinstance(torchs, Tensor):
        assert torchs.dtype == own.dtype
        assert torchs.shape == own.shape
        if torchs.is_quantized:
            assert_same_weight(own, torchs)
        else:
            assert torch.equal(torchs, own)
    elif isinstance(torchs, (list, tuple)):
        assert len(torchs) == len(own)
        for a, b in zip(torchs, own, strict=True):
            _assert_same_state(a, b)
    else:
        assert torchs == own


def _child_run(plugin: bool, command: str, folder: Path, *cases: tuple[str, str]) -> dict:
    arguments = (command, str(folder), *(":".join(case) for case in cases))
    environment = {**os.environ, "CPUACCEL": "1" if plugin else "0"}
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "quant._child", *arguments],
        cwd=_TESTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


_CROSSING = [
    ("conv2d", "state"),
    ("conv2d", "script"),
    ("functional", "module"),
    ("linear", "module"),
    ("lstm", "module"),
    ("lstm", "script"),
]
crossing = pytest.mark.parametrize(("kind", "form"), _CROSSING)


@pytest.fixture(scope="module")
def saved_here(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict, Path]:
    """Counters of a process with torch alone, the results of models here, and its folder.

    One process runs all cases, because importing torch takes most of its time.
    """
    folder, expected = tmp_path_factory.mktemp("here"), {}
    with running("auto"), m.quiet(), torch.no_grad():
        for kind, form in _CROSSING:
            model, x = m.build(kind)
            expected[kind, form] = m.first(model(x))
            _child.save(model, x, _child.paths(folder, kind, form)[0], form)
    return _child_run(False, "load", folder, *_CROSSING), expected, folder


@pytest.fixture(scope="module")
def saved_by_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where such a process saved models and their results."""
    folder = tmp_path_factory.mktemp("torch")
    _child_run(False, "build", folder, *_CROSSING)
    return folder


@needs_front_end
@crossing
def test_saved_here_loads_in_torch_without_the_plugin(
    saved_here: tuple[dict, dict, Path], kind: str, form: str
) -> None:
    counters, expected, folder = saved_here
    assert not counters.get("enabled")
    assert not counters.get("calls")
    _assert_close(torch.load(_child.paths(folder, kind, form)[1]), expected[kind, form])


@needs_front_end
@crossing
def test_saved_by_torch_runs_here(saved_by_torch: Path, kind: str, form: str) -> None:
    model_path, output_path = _child.paths(saved_by_torch, kind, form)
    with running("auto"), m.quiet(), torch.no_grad():
        x = m.build(kind)[1]
        model = _child.load(model_path, kind, form)
        with counted() as counts:
            actual = m.first(model(x))
    _assert_ours(counts, m.KINDS[kind].op)
    _assert_close(actual, torch.load(output_path))


@needs_front_end
def test_saved_by_torch_runs_in_a_fresh_process(saved_by_torch: Path, tmp_path: Path) -> None:
    """Only `import torch` loads the engine before the file is read."""
    case = ("lstm", "module")
    model_path, output_path = _child.paths(saved_by_torch, *case)
    shutil.copy(model_path, tmp_path)
    counters = _child_run(True, "load", tmp_path, case)
    assert counters["enabled"]
    assert any(name.startswith("linear_dynamic.") for name in counters["calls"])
    _assert_close(torch.load(_child.paths(tmp_path, *case)[1]), torch.load(output_path))


def _assert_close(actual: Tensor, expected: Tensor) -> None:
    """Equal up to the growth of single quanta in earlier layers."""
    assert float((actual - expected).norm()) <= 0.02 * float(expected.norm())
