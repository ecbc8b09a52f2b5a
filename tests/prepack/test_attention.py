"""Packed nn.MultiheadAttention and transformer layers."""

import copy
import itertools
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from prepack._models import assert_same, fallbacks, is_packed, packed, values

pytestmark = needs_plugin

E, HEADS = 64, 4


def _close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def _inputs(batch_first: bool, *shapes: tuple[int, int, int]) -> list[Tensor]:
    """Sequences of (batch, length, width)."""
    made = [torch.randn(shape) for shape in shapes]
    return made if batch_first else [x.transpose(0, 1).contiguous() for x in made]


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@given(
    batch=st.integers(1, 3),
    lengths=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kind=st.sampled_from(["self", "encoder-decoder", "three"]),
    batch_first=st.booleans(),
    need_weights=st.booleans(),
    average=st.booleans(),
    bias=st.booleans(),
    other_widths=st.booleans(),
    attn_mask=st.sampled_from(["none", "bool", "float", "each"]),
    padding=st.sampled_from(["none", "bool", "float"]),
)
def test_it_is_attention(
    batch: int,
    lengths: tuple[int, int],
    kind: str,
    batch_first: bool,
    need_weights: bool,
    average: bool,
    bias: bool,
    other_widths: bool,
    attn_mask: str,
    padding: str,
) -> None:
    other_widths = other_widths and kind == "three"
    widths = {"kdim": 48, "vdim": 32} if other_widths else {}
    layer = nn.MultiheadAttention(E, HEADS, bias=bias, batch_first=batch_first, **widths).eval()
    if bias:
        nn.init.normal_(layer.in_proj_bias)
    ours = packed(layer)
    L, S = (lengths[0], lengths[0]) if kind == "self" else lengths
    query, key, value = _inputs(
        batch_first, (batch, L, E), (batch, S, layer.kdim), (batch, S, layer.vdim)
    )
    if kind == "self":
        key = value = query
    elif kind == "encoder-decoder":
        value = key
    masks: dict[str, Tensor | None] = {"attn_mask": None, "key_padding_mask": None}
    if attn_mask != "none":
        masks["attn_mask"] = torch.rand(L, S) > 0.8
        if attn_mask == "each":
            masks["attn_mask"] = torch.rand(batch * HEADS, L, S) > 0.8
        masks["attn_mask"][..., 0] = False
        if attn_mask == "float":
            masks["attn_mask"] = torch.randn(L, S)
    if padding != "none":
        hidden = torch.zeros(batch, S, dtype=torch.bool)
        hidden[0, 1:] = True
        masks["key_padding_mask"] = hidden if padding == "bool" else hidden.float() * -5
    with torch.no_grad():
        expected = layer(
            query, key, value, need_weights=need_weights, average_attn_weights=average, **masks
        )
        found = ours(
            query, key, value, need_weights=need_weights, average_attn_weights=average, **masks
        )
    assert is_packed(ours)
    assert is_packed(ours.out_proj)
    _close(found, expected)


def test_causal() -> None:
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True).eval()
    ours, x = packed(layer), torch.randn(2, 7, E)
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    padding = torch.zeros(2, 7)
    padding[1, 5:] = -torch.inf
    for need_weights, key_padding_mask in itertools.product((True, False), (None, padding)):
        arguments: dict[str, Any] = {
            "attn_mask": mask,
            "is_causal": True,
            "need_weights": need_weights,
            "key_padding_mask": key_padding_mask,
        }
        with torch.no_grad():
            _close(ours(x, x, x, **arguments), layer(x, x, x, **arguments))
    assert is_packed(ours)


def test_autocast() -> None:
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True).eval()
    ours, x = packed(layer), torch.randn(2, 7, E)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for need_weights in (True, False):
            found, expected = (
                each(x, x, x, need_weights=need_weights)[0] for each in (ours, layer)
            )
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected, rtol=3e-2, atol=3e-2)
    assert is_packed(ours)


def test_gradients_of_inputs() -> None:
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True).eval()
    ours, gradients = packed(layer), []
    for each in (layer, ours):
        x = torch.ones(2, 3, E).cumsum(1).requires_grad_()
        each(x, x, x)[0].square().sum().backward()
        gradients.append((x.grad, each.in_proj_bias.grad, each.out_proj.bias.grad))
    assert is_packed(ours)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)


def test_training_makes_it_plain() -> None:
    layer = nn.MultiheadAttention(E, HEADS, dropout=0.5).train()
    ours, x = packed(layer), torch.randn(3, 2, E)
    results = []
    for each in (layer, ours):
        torch.manual_seed(3)
        result = each(x, x, x)[0]
        result.sum().backward()
        results.append((result, each.in_proj_weight.grad, each.out_proj.weight.grad))
    torch.testing.assert_close(results[1], results[0])
    assert type(ours) is nn.MultiheadAttention


@pytest.mark.parametrize(
    ("shapes", "arguments"),
    [
        (((5, E),) * 3, {}),
        (((5, 2, E), (5, 3, E), (5, 3, E)), {}),
        (((5, 2, E), (5, 2, E), (4, 2, E)), {}),
        (((5, 2, 63),) * 3, {}),
        (((5, 2, E),) * 3, {"attn_mask": torch.zeros(2, 2)}),
        (((5, 2, E),) * 3, {"key_padding_mask": torch.zeros(3, 5)}),
        (((5, 2, E),) * 3, {"is_causal": True}),
        (((2,),) * 3, {}),
    ],
)
def test_unusual_calls_are_torch_s(shapes: Any, arguments: dict[str, Any]) -> None:
    layer = nn.MultiheadAttention(E, HEADS).eval()
    ours, inputs = packed(layer), [torch.randn(shape) for shape in shapes]
    cpuaccel.reset_stats()
    results: list[Any] = []
    for each in (layer, ours):
        try:
            results.append(each(*inputs, **arguments))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}")
    assert type(ours) is nn.MultiheadAttention
    assert sum(fallbacks().values()) >= 1
    if isinstance(results[0], str):
        assert results[1] == results[0]
    else:
        _close(results[1], results[0])


@pytest.mark.parametrize("arguments", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_layers_that_are_not_packed(arguments: dict[str, Any]) -> None:
    layer = nn.MultiheadAttention(E, HEADS, **arguments).eval()
    cpuaccel.prepack(layer)
    assert type(layer) is nn.MultiheadAttention
    assert not is_packed(layer.out_proj)
    layer(*[torch.randn(2, 3, E)] * 3)


def test_state_and_changes() -> None:
    for widths in ({}, {"kdim": 48, "vdim": 32}):
        layer = nn.MultiheadAttention(E, HEADS, **widths).eval()
        ours = packed(layer)
        assert_same(ours.state_dict(), layer.state_dict())
        inputs = [torch.randn(3, 2, size) for size in (E, layer.kdim, layer.vdim)]
        for each in (layer, ours):
            each.load_state_dict({n: v * 2 for n, v in values(each).items()})
        assert is_packed(ours)
        _close(ours(*inputs), layer(*inputs))
        name = "q_proj_weight" if widths else "in_proj_weight"
        for each in (layer, ours, copy.deepcopy(packed(ours))):
            getattr(each, name).data.mul_(3)
            each.out_proj.weight.data.mul_(3)
        assert type(ours) is nn.MultiheadAttention
        _close(ours(*inputs), layer(*inputs))
        assert_same(cpuaccel.unpack(packed(layer)).state_dict(), layer.state_dict())


def _encoder(**arguments: Any) -> nn.TransformerEncoder:
    options: dict[str, Any] = {"batch_first": True, "activation": "gelu", **arguments}
    layer = nn.TransformerEncoderLayer(E, HEADS, 96, **options)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(E)).eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.2)
    return encoder


def _all_packed(encoder: Any) -> bool:
    return all(
        is_packed(part)
        for layer in encoder.layers
        for part in (layer.self_attn, layer.self_attn.out_proj, layer.linear1, layer.linear2)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("masks", ["none", "mask", "causal", "left", "inner", "both"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"norm_first": True}, {"batch_first": False}, {"activation": nn.SiLU()}, {"bias": False}],
    ids=str,
)
def test_encoder(arguments: dict[str, Any], masks: str, gradients: bool) -> None:
    encoder = _encoder(**arguments)
    ours, x = packed(encoder), torch.randn(3, 6, E)
    if arguments.get("batch_first") is False:
        x = x.transpose(0, 1)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = True
    if masks == "inner":
        padding[2, 2] = True
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    mask = torch.rand(6, 6) > 0.7  # torch's fast path accepts no values other than 0 and -inf
    mask[:, 0] = False
    call: dict[str, Any] = {
        "none": {},
        "mask": {"mask": mask},
        "causal": {"mask": causal, "is_causal": True},
        "left": {"src_key_padding_mask": padding},
        "inner": {"src_key_padding_mask": padding},
        "both": {"src_key_padding_mask": padding, "mask": causal.bool()},
    }[masks]
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(ours(x, **call), encoder(x, **call), rtol=1e-4, atol=1e-4)
    assert _all_packed(ours)


def test_encoder_layer_of_a_nested_tensor() -> None:
    encoder = _encoder()
    layer, ours = encoder.layers[0], packed(encoder.layers[0])
    x = torch.nested.nested_tensor([torch.randn(3, E), torch.randn(5, E)])
    with torch.no_grad():
        for found, expected in zip(ours(x).unbind(), layer(x).unbind(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_encoder_is_unpacked() -> None:
    encoder = _encoder()
    ours = packed(encoder)
    assert "PackedTransformerEncoderLayer" in str(ours)
    assert_same(ours.state_dict(), encoder.state_dict())
    other = copy.deepcopy(ours)
    assert _all_packed(other)
    assert str(pickle.loads(pickle.dumps(ours))) == str(encoder)
    assert str(cpuaccel.unpack(ours)) == str(encoder)
    x = torch.randn(2, 3, E)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), encoder(x), rtol=0, atol=0)
        torch.testing.assert_close(other(x), encoder(x), rtol=1e-4, atol=1e-4)


def test_an_encoder_layer_some_of_which_is_plain() -> None:
    encoder = _encoder()
    ours, x = packed(encoder), torch.randn(2, 3, E)
    for each in (ours, encoder):
        each.layers[0].linear1.weight.data.mul_(2)
        each.layers[1].self_attn.in_proj_weight.data.mul_(2)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), encoder(x), rtol=1e-4, atol=1e-4)


class _OwnLayer(nn.TransformerEncoderLayer):
    pass


def test_subclasses_of_torchs_layers_are_not_packed() -> None:
    model = cpuaccel.prepack(nn.ModuleList([_OwnLayer(E, HEADS, 96, batch_first=True)]).eval())
    layer: Any = model[0]
    assert not any(map(is_packed, model.modules()))
    notes = {row.layer: row.note for row in cpuaccel.explain(model).rows}
    assert "read by 0" in notes["0.linear1"]
    layer(torch.randn(2, 3, E))


def test_decoder_and_whole_transformer() -> None:
    model = nn.Transformer(E, HEADS, 1, 1, 96, batch_first=True).eval()
    ours = packed(model)
    src, tgt = torch.randn(2, 5, E), torch.randn(2, 4, E)
    mask = model.generate_square_subsequent_mask(4)
    with torch.no_grad():
        for call in ({}, {"tgt_mask": mask, "tgt_is_causal": True}):
            _close(ours(src, tgt, **call), model(src, tgt, **call))
    assert is_packed(ours.decoder.layers[0].multihead_attn)
    assert is_packed(ours.decoder.layers[0].linear1)
