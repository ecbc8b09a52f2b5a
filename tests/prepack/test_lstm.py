"""Packed nn.LSTM."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin
from torch import nn

import cpuaccel
from cpuaccel import _native
from prepack._models import (
    assert_same,
    fallbacks,
    is_packed,
    packed,
    values,
    without_bf16_arithmetic,
)

pytestmark = needs_plugin

WIDTH, H = 24, 32


def _close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)


@given(
    time=st.integers(1, 9),
    batch=st.integers(0, 4),
    sizes=st.sampled_from([(1, 8), (24, 32), (37, 40), (70, 64)]),
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    batch_first=st.booleans(),
    bias=st.booleans(),
    states=st.booleans(),
)
def test_it_is_lstm(
    time: int,
    batch: int,
    sizes: tuple[int, int],
    layers: int,
    bidirectional: bool,
    batch_first: bool,
    bias: bool,
    states: bool,
) -> None:
    inputs, hidden = sizes
    model = nn.LSTM(
        inputs, hidden, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional
    ).eval()
    ours = packed(model)
    shape = (time,) if batch == 0 else (batch, time) if batch_first else (time, batch)
    x = torch.randn(*shape, inputs)
    depth = (layers * (2 if bidirectional else 1), *((batch,) if batch else ()), hidden)
    hx = (torch.randn(depth), torch.randn(depth)) if states else None
    with torch.no_grad():
        found, expected = ours(x, hx), model(x, hx)
    assert is_packed(ours)
    _close(found, expected)
    assert found[1][0].is_contiguous()


def test_long_sequences_and_large_values() -> None:
    model = nn.LSTM(WIDTH, H).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=2)
    x = torch.randn(200, 2, WIDTH) * 10
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        found = packed(model)(x)
    torch.testing.assert_close(found[0].double(), exact[0], rtol=1e-3, atol=1e-3)


def test_state_and_changes() -> None:
    model = nn.LSTM(WIDTH, H, 2, bidirectional=True).eval()
    ours, x = packed(model), torch.randn(3, 2, WIDTH)
    assert_same(ours.state_dict(), model.state_dict())
    with torch.no_grad():
        for each in (model, ours):
            each.load_state_dict({n: v * 2 for n, v in values(each).items()})
        assert is_packed(ours)
        _close(ours(x), model(x))
        other, loaded = copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))
        assert type(loaded) is nn.LSTM
        assert is_packed(other)
        for each in (model, ours):
            each.weight_hh_l1_reverse.data.mul_(3)
        _close(ours(x), model(x))
        assert type(ours) is nn.LSTM
        _close(other(x), loaded(x))
        assert_same(cpuaccel.unpack(other).state_dict(), loaded.state_dict())
        _close(other(x), loaded(x))
        loaded.weight_ih_l0.data.zero_()
        assert all(a is b for a, b in zip(loaded._flat_weights, loaded.parameters(), strict=True))


def _replace(model: Any) -> None:
    model.weight_ih_l0 = nn.Parameter(torch.ones(4 * H, WIDTH))


def _replace_bias(model: Any) -> None:
    model.bias_ih_l0 = nn.Parameter(torch.ones(4 * H))


@pytest.mark.parametrize(
    "change",
    [
        _replace,
        _replace_bias,
        lambda model: [p.data.mul_(2) for p in model.parameters()],
        lambda model: [p.data.mul_(2) for layer in model.all_weights for p in layer],
        lambda model: [p.data.mul_(2) for p in model._flat_weights],
        lambda model: model.bias_hh_l0.data.add_(1),
        lambda model: model.reset_parameters(),
        lambda model: model._apply(lambda t: t * 2),
        lambda model: model.half().float(),
    ],
)
def test_changes_are_seen(change: Any) -> None:
    model = nn.LSTM(WIDTH, H).eval()
    ours, x = packed(model), torch.randn(3, 2, WIDTH)
    before = ours(x)[0].detach()
    for each in (model, ours):
        torch.manual_seed(1)
        change(each)
    with torch.no_grad():
        _close(ours(x), model(x))
        assert not torch.equal(ours(x)[0], before)
        _close(cpuaccel.prepack(ours)(x), model(x))


def test_who_holds_a_weight_keeps_it_plain() -> None:
    model = nn.LSTM(WIDTH, H).eval()
    held = model.weight_hh_l0
    cpuaccel.prepack(model)
    assert type(model) is nn.LSTM
    held.data.zero_()
    assert model._flat_weights[1] is held
    x = torch.randn(3, 2, WIDTH)
    _close(model(x), nn.LSTM.forward(copy.deepcopy(model), x))


def test_made_plain_while_others_run_it() -> None:
    model, x = nn.LSTM(WIDTH, H, 2).eval(), torch.randn(3, 2, WIDTH)
    with torch.no_grad():
        expected = model(x)[0]
    for _ in range(5):
        ours = packed(model)

        def run(index: int, ours: Any = ours) -> Any:
            if index == 20:
                ours.weight_hh_l1.data.mul_(1)
            with torch.no_grad():
                return ours(x)[0]

        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(run, range(40)):
                _close(result, expected)
        assert type(ours) is nn.LSTM


def _packed_sequence() -> Any:
    return nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, WIDTH), [5, 3])


@pytest.mark.parametrize(
    "inputs",
    [
        (_packed_sequence(),),
        (torch.randn(3, 2, WIDTH + 1),),
        (torch.randn(3, 2, 2, WIDTH),),
        (torch.randn(0, 2, WIDTH),),
        (torch.randn(3, 2, WIDTH).double(),),
        (torch.randn(3, 2, WIDTH), (torch.randn(1, 3, H), torch.randn(1, 3, H))),
        (torch.randn(3, 2, WIDTH), (torch.randn(1, H), torch.randn(1, H))),
        (torch.randn(3, 2, WIDTH, requires_grad=True),),
    ],
)
def test_unusual_calls_are_torch_s(inputs: tuple[Any, ...]) -> None:
    model = nn.LSTM(WIDTH, H).eval().requires_grad_(False)
    ours = packed(model)
    cpuaccel.reset_stats()
    results: list[Any] = []
    for each in (model, ours):
        try:
            results.append(each(*inputs))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}")
    assert type(ours) is nn.LSTM
    assert sum(fallbacks().values()) == 1
    if isinstance(results[0], str):
        assert results[1] == results[0]
    else:
        _close(results[1][0], results[0][0])


def test_gradients() -> None:
    model = nn.LSTM(WIDTH, H).eval()
    ours, x = packed(model), torch.randn(3, 2, WIDTH)
    for each in (model, ours):
        each(x)[0].sum().backward()
    for found, expected in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


def test_autocast() -> None:
    model = nn.LSTM(WIDTH, H).eval()
    ours, x = packed(model), torch.randn(3, 2, WIDTH)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            with cpuaccel.enabled(False):
                model(x)
        except RuntimeError as error:
            pytest.skip(f"torch without cpuaccel has no such LSTM on this CPU: {error}")
        found, expected = ours(x)[0], model(x)[0]
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_switched_off() -> None:
    model = nn.LSTM(WIDTH, H, 2, bidirectional=True).eval()
    ours, x = packed(model), torch.randn(3, 2, WIDTH)
    cpuaccel.reset_stats()
    with torch.no_grad():
        with cpuaccel.enabled(False):
            _close(ours(x), model(x))
        assert fallbacks() == {"cpuaccel is off": 4}
        with without_bf16_arithmetic():
            _close(ours(x), model(x))
        assert is_packed(ours)


@pytest.mark.parametrize(
    "model",
    [nn.LSTM(WIDTH, H, proj_size=8), nn.LSTM(WIDTH, H).half(), nn.LSTM(WIDTH, 3), nn.GRU(WIDTH, H)],
)
def test_models_that_are_not_packed(model: nn.Module) -> None:
    kind = type(model)
    assert type(cpuaccel.prepack(model)) is kind


def _arguments(bias: bool = True) -> list[Any]:
    panel = _native.load().gemm_panel()
    pack = torch.ops.cpuaccel.pack_linear
    biases = [torch.randn(4 * H), torch.randn(4 * H)] if bias else [None, None]
    weights = [pack(torch.randn(4 * H, n), panel) for n in (WIDTH, H)]
    return [
        torch.randn(5, 2, WIDTH),
        *weights,
        panel,
        *biases,
        *torch.randn(2, 2, H).unbind(),
        False,
    ]


@pytest.mark.parametrize("bias", [False, True])
def test_opcheck(bias: bool) -> None:
    arguments = _arguments(bias)
    torch.library.opcheck(torch.ops.cpuaccel.packed_lstm.default, tuple(arguments))
    arguments[-1] = True
    torch.library.opcheck(torch.ops.cpuaccel.packed_lstm.default, tuple(arguments))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, torch.randn(5, WIDTH)),
        (0, torch.randn(0, 2, WIDTH)),
        (0, torch.randn(5, 2, WIDTH).double()),
        (0, torch.randn(5, 3, WIDTH)),
        (1, torch.zeros(3)),
        (2, torch.zeros(3)),
        (3, 5),
        (4, None),
        (5, torch.zeros(3)),
        (6, torch.zeros(3, 3)),
        (7, torch.zeros(2, H + 1)),
    ],
)
def test_bad_arguments(place: int, value: Any) -> None:
    arguments = _arguments()
    arguments[place] = value
    with pytest.raises(RuntimeError, match="expected"):
        torch.ops.cpuaccel.packed_lstm(*arguments)


def test_explain() -> None:
    rows = cpuaccel.explain(packed(nn.LSTM(WIDTH, H))).rows
    assert [row.layer for row in rows] == ["weight_ih_l0", "weight_hh_l0"]
    assert all(isinstance(row.packed_bytes, int) and row.packed_bytes > 0 for row in rows)
