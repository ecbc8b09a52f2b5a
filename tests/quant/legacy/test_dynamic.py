"""load_legacy of quantize_dynamic models: linear layers, LSTM, GRU, cells, embeddings."""

from __future__ import annotations

import copy
import io
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization as aq
from _torch_ao_block import load_blocked
from torch import Tensor, nn

from quant._lowered import NothingQuantized
from quant.legacy import _files

FILES: dict[str, Callable[[nn.Module], tuple[io.BytesIO, dict[str, Any]]]] = {
    "module": lambda m: (_files.saved(m), {"model": _files.made(_files.Words)}),
    "module, old": lambda m: (_files.saved_old(m), {"model": _files.made(_files.Words)}),
    "pickle": lambda m: (_files.pickled(m), {"model": _files.made(_files.Words)}),
    "state dict": lambda m: (_files.saved(m.state_dict()), {"model": _files.made(_files.Words)}),
    "torch.jit.script": lambda m: (_files.scripted(m), {}),
    "torch.jit.trace": lambda m: (_files.traced(m, _files.indices()), {}),
}


@pytest.fixture(scope="module")
def words() -> nn.Module:
    return _files.dynamic()


def _assert_near(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    # The integers are torch's; products of floats round in another order.
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", FILES)
def test_a_whole_model(way: str, words: nn.Module) -> None:
    file, options = FILES[way](words)
    loaded = load_blocked(file, **options)
    with NothingQuantized(), torch.no_grad():
        found = loaded(_files.indices())
    _assert_near(found, _files.result(words, _files.indices()))


def test_weights_are_int8(words: nn.Module) -> None:
    file, options = FILES["state dict"](words)
    loaded = load_blocked(file, **options)
    dtypes = [each.dtype for each in loaded.buffers() if each.dim() == 2]
    assert dtypes.count(torch.int8) == 2 * 4 + 2 + 1 + 2
    assert dtypes.count(torch.uint8) == 1


def test_states_are_taken_and_returned() -> None:
    lstm = _files.quietly(aq.quantize_dynamic, nn.Sequential(nn.LSTM(4, 6)).eval(), {nn.LSTM})
    loaded = load_blocked(_files.saved(lstm), model=nn.Sequential(nn.LSTM(4, 6)))
    x, state = torch.randn(5, 2, 4), (torch.randn(1, 2, 6), torch.randn(1, 2, 6))
    found, expected = _files.result(loaded[0], x, state), _files.result(lstm[0], x, state)
    _assert_near((found[0], *found[1]), (expected[0], *expected[1]))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_cells(cell: type[nn.Module]) -> None:
    model = nn.Sequential(cell(4, 6)).eval()
    quantized = _files.quietly(aq.quantize_dynamic, copy.deepcopy(model), {cell})
    loaded = load_blocked(_files.saved(quantized.state_dict()), model=model)
    x = torch.randn(3, 4)
    found, expected = _files.result(loaded, x), _files.result(quantized, x)
    _assert_near(tuple(found), tuple(expected))


def test_packed_sequences_say_what_to_do() -> None:
    lstm = _files.quietly(aq.quantize_dynamic, nn.Sequential(nn.LSTM(4, 6)).eval(), {nn.LSTM})
    loaded = load_blocked(_files.saved(lstm), model=nn.Sequential(nn.LSTM(4, 6)))
    packed = nn.utils.rnn.pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    with pytest.raises(TypeError, match="PackedSequence"):
        loaded(packed)


class Attention(nn.Module):
    """A layer of DistilBERT. It branches on an argument, so torch.fx cannot trace it."""

    def __init__(self) -> None:
        super().__init__()
        self.q_lin, self.k_lin, self.v_lin = (nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self.q_lin(x) @ self.k_lin(x).transpose(1, 2)
        if mask is not None and bool(mask.any()):
            scores = scores.masked_fill(mask, -1e9)
        return self.norm(scores.softmax(-1) @ self.v_lin(x) + x)


def _attention() -> tuple[nn.Module, nn.Module]:
    model = _files.made(Attention)
    return model, _files.quietly(aq.quantize_dynamic, copy.deepcopy(model), {nn.Linear})


def test_a_state_dict_for_a_float_model() -> None:
    # huggingface/transformers #7329: load_state_dict says that q_lin.weight is missing and
    # q_lin.scale unexpected.
    model, quantized = _attention()
    file = _files.saved(quantized.state_dict())
    loaded = load_blocked(file, model=model)
    x = torch.randn(2, 5, 16)
    _assert_near((_files.result(loaded, x),), (_files.result(quantized, x),))
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"q_lin\.weight"):
        model.load_state_dict(torch.load(file, weights_only=False))


def test_a_state_dict_without_metadata() -> None:
    # pytorch/pytorch #41684, #125564: a state dict that lost its metadata raises a KeyError.
    model, quantized = _attention()
    state = OrderedDict(quantized.state_dict().items())
    loaded = load_blocked(_files.saved(state), model=model)
    x = torch.randn(2, 5, 16)
    _assert_near((_files.result(loaded, x),), (_files.result(quantized, x),))


def test_float16_weights() -> None:
    model = nn.Sequential(nn.Linear(8, 4)).eval()
    quantized = _files.quietly(
        aq.quantize_dynamic, copy.deepcopy(model), {nn.Linear}, dtype=torch.float16
    )
    x = torch.randn(3, 8)
    for value, options in ((quantized, {}), (quantized.state_dict(), {"model": model})):
        loaded = load_blocked(_files.saved(value), **options)
        _assert_near((_files.result(loaded, x),), (_files.result(quantized, x),))
