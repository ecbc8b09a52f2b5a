"""The decoder of a model with an encoder, such as T5 or Whisper, as modules that can be captured.

`CrossKeys` computes the keys and values of the encoder's states, once. `Seq2SeqDecoder` decodes
tokens with them. Both run the model itself, with caches that take what its attentions give.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _transformers_names
from cpuaccel._modules import structure_of
from cpuaccel.compile.capture.cached_attention import Site, Sites
from cpuaccel.compile.capture.cross_attention import BiasedAttention
from cpuaccel.compile.capture.decoder import (
    Unsupported,
    attention_of,
    cache_argument,
    mask_mark,
    passing_cache,
    plain_options,
    replace_attention,
    tracing,
)

SELF, CROSS = "self", "cross"
"""The masks of a decoder."""


class Seq2SeqDecoder(nn.Module):
    """Token numbers and positions (both N x T, int64) to scores (N x T x vocabulary).

    It holds the tensors of `model`. Its calls run inside `cached_call` and `cross_call`.
    """

    counts_each_layer = True
    """Its traces number the attentions as the layers are called, so each layer has to be traced."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = structure_of(model)
        self.cache_name = cache_argument(type(model))
        self.has_positions = "decoder_position_ids" in _parameters_of(model)
        self.sites, self.cross_sites = Sites(), Sites()
        self.mask_names = (SELF, CROSS)
        replace_attention(self.model)
        self._biases = _marked_biases(self.model)
        self.training = model.training

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the scores of all tokens."""
        is_first = not self.sites.found
        trace = _Trace(self._biases, is_first)
        if is_first:  # the ops read them in this call
            self.sites.found, self.cross_sites.found = trace.sites, trace.cross_sites
        mark = torch.empty((tokens.shape[0], 1, 1))
        scores: Tensor = _call(self, tokens, positions, mark, trace).logits
        if not trace.is_like(self.sites, self.cross_sites):
            raise Unsupported("its calls have different numbers of attentions")
        return scores


class CrossKeys(nn.Module):
    """The states of the encoder (N x S x width) to the keys and values of each layer, flat.

    It runs the decoder for one token up to its last cross-attention. In a capture, only what the
    keys and values need is left.
    """

    counts_each_layer = True
    does_more_than_its_graph = True
    """A capture of it runs even if no op is cpuaccel's: it has the layers' products alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = structure_of(model)
        self.cache_name = cache_argument(type(model))
        self.has_positions = "decoder_position_ids" in _parameters_of(model)
        replace_attention(self.model)
        self.training = model.training

    def forward(self, states: Tensor) -> list[Tensor]:
        """Return the keys and values of the first layer, of the second layer, and so on."""
        first = torch.zeros((states.shape[0], 1), dtype=torch.int64)
        trace = _KeysTrace()
        _call(self, first, first, states, trace)
        if [layer for layer, _, _ in trace.found] != list(range(len(trace.found))):
            raise Unsupported("its layers attend to the encoder in another order")
        return [each for _, *pair in trace.found for each in pair]


def _call(module: Any, tokens: Tensor, positions: Tensor, states: Tensor, trace: Any) -> Any:
    given = {"decoder_position_ids": positions} if module.has_positions else {}
    with tracing(trace):
        return module.model(
            decoder_input_ids=tokens,
            encoder_outputs=_transformers_names.BaseModelOutput(last_hidden_state=states),
            attention_mask=trace.cross_mark,
            decoder_attention_mask=trace.self_mark,
            use_cache=True,
            **{module.cache_name: _passing_caches(trace)},
            **given,
        )


class _Trace:
    """What the attentions of one call of a decoder hand to the attention function."""

    def __init__(self, biases: list[_Bias], is_first: bool) -> None:
        self.sites: list[Site] = []
        self.cross_sites: list[Site] = []
        self.self_mark, self.cross_mark = mask_mark(), mask_mark()
        self.cross_keys = torch.empty((1, 1, 1, 1))
        self.is_filled = True
        self._is_first = is_first
        self._updated: tuple[int, Any, Any] = (-1, None, None)
        self._biases = biases

    def is_like(self, sites: Sites, cross_sites: Sites) -> bool:
        """Say whether the call had as many attentions as an earlier call."""
        numbers = len(self.sites), len(self.cross_sites)
        return numbers == (len(sites.found), len(cross_sites.found))

    def update(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Take what an attention gives to the decoder's own cache."""
        self._updated = (layer, key, value)

    def attend(
        self, module: Any, query: Tensor, key: Any, value: Any, mask: Any, options: Any
    ) -> Tensor:
        """Take what an attention gives to the attention function, and return its result."""
        layer, updated_key, updated_value = self._updated
        self._updated = (-1, None, None)
        attend, options = self._function(module, dict(options))
        attended: Tensor
        if key is self.cross_keys and value is self.cross_keys:
            if mask is not None and mask is not self.cross_mark:
                raise Unsupported("a cross-attention has another mask than the encoder's")
            name = None if mask is None else CROSS
            self.cross_sites.append(Site(module, attend, module.layer_idx, name, options))
            number = len(self.cross_sites) - 1
            attended = torch.ops.cpuaccel.cross_attention(query, number)
            return attended
        if updated_key is not key or updated_value is not value:
            raise Unsupported("an attention reads other keys than the cache returns")
        if mask is not self.self_mark:
            raise Unsupported("an attention has another mask than transformers makes for the model")
        self.sites.append(Site(module, attend, layer, SELF, options))
        number = len(self.sites) - 1
        attended = torch.ops.cpuaccel.cached_attention(query, key, value, number)
        return attended

    def _function(self, module: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the attention function of a module, and the options that it gets."""
        bias = options.pop("position_bias", None)
        attend = attention_of(module)
        for each in self._biases:
            if bias is each.mark:
                return BiasedAttention(attend, each.module), plain_options(options)
        # T5 hands zeros to cross-attentions.
        if bias is not None and self._is_first and bool(bias.any()):
            raise Unsupported("an attention has a bias")
        return attend, plain_options(options)


class _KeysTrace:
    """What the cross-attentions of one call give to their cache."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Tensor, Tensor]] = []
        self.self_mark, self.cross_mark = mask_mark(), mask_mark()
        self.is_filled = False

    def update(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Leave the decoder's own keys and values."""

    def attend(
        self, module: Any, query: Tensor, key: Any, value: Any, mask: Any, options: Any
    ) -> Tensor:
        """Return something of the sizes of an attention's result: nothing depends on it."""
        return query.transpose(1, 2)


class _Bias:
    """In the place of a method that computes a bias by position: returns a mark."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.mark = torch.zeros((1, module.n_heads, 1, 1))

    def __call__(self, *_: Any, **__: Any) -> Tensor:
        return self.mark

    def __deepcopy__(self, memo: dict[int, Any]) -> _Bias:
        return self


def _marked_biases(model: Any) -> list[_Bias]:
    """Let the modules of T5 that compute biases return marks; return these."""
    found = []
    for module in model.modules():
        if getattr(module, "has_relative_attention_bias", False):
            module.compute_bias = _Bias(module)
            found.append(module.compute_bias)
    return found


def _passing_caches(trace: Any) -> Any:
    """Return a cache that hands what it gets to `trace`."""

    class CrossCache(_transformers_names.Cache):  # type: ignore[misc]
        def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> Any:
            trace.found.append((layer, key, value))
            return key, value

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return 0

    class Layers(dict[int, Any]):
        def __missing__(self, layer: int) -> Any:
            return _Layer(trace.cross_keys)

        def __len__(self) -> int:
            return 1

    class IsFilled(dict[int, bool]):
        def get(self, *_: Any) -> Any:
            return trace.is_filled

    cross = CrossCache(layers=[])
    cross.layers = Layers()
    both = _transformers_names.EncoderDecoderCache(passing_cache(trace), CrossCache(layers=[]))
    both.cross_attention_cache = cross
    both.is_updated = IsFilled()
    return both


class _Layer:
    """A layer of the cache of cross-attentions."""

    def __init__(self, mark: Tensor) -> None:
        self.keys = self.values = mark


def _parameters_of(model: Any) -> frozenset[str]:
    return frozenset(inspect.signature(type(model).forward).parameters)
