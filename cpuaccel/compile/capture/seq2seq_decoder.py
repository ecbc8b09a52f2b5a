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
from cpuaccel.compile.capture import repeated_layers
from cpuaccel.compile.capture.attention_function import heads_of
from cpuaccel.compile.capture.cached_attention import Site, Sites, caches_need_positions
from cpuaccel.compile.capture.cross_attention import BiasedAttention
from cpuaccel.compile.capture.decoder import (
    TracedSites,
    Unsupported,
    attention_of,
    cache_argument,
    mask_mark,
    passing_cache,
    plain_options,
    replace_attention,
    running_trace,
    tracing,
)
from cpuaccel.compile.common.context_values import holding

SELF, CROSS = "self", "cross"
"""The masks of a decoder."""


class Seq2SeqDecoder(nn.Module):
    """Token numbers and positions (both N x T, int64) to scores (N x T x vocabulary).

    It holds the tensors of `model`. Its calls run inside `cached_call` and `cross_call`.
    """

    does_more_than_its_graph = True
    """A capture for a few start tokens, or for some beams, runs even if no product is cpuaccel's:
    its attentions are, and the model's Python takes longer than the graph."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = structure_of(model)
        self.cache_name = cache_argument(type(model))
        self.has_positions = takes_positions(model)
        self.sites = Sites()
        self.mask_names = (SELF, CROSS)
        replace_attention(self.model)
        _replace_positions(self)
        self._biases = _marked_biases(self.model)
        self.training = model.training

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the scores of all tokens."""
        is_first = not self.sites.found
        trace = _Trace(self._biases, self.sites.found, is_first)
        mark = torch.empty((tokens.shape[0], 1, 1))
        with self.sites.filled_by(trace.sites), holding(repeated_layers.numbers, trace):
            scores: Tensor = _call(self, tokens, positions, mark, trace).logits
        if len(trace.sites) != len(self.sites.found):
            raise Unsupported("its calls have different numbers of attentions")
        return scores


class CrossKeys(nn.Module):
    """The states of the encoder (N x S x width) to the keys and values of each layer, flat.

    It runs the decoder for one token up to its last cross-attention. In a capture, only what the
    keys and values need is left.
    """

    counts_each_layer = True
    """Its result has the keys of each layer, so each layer has to be traced."""
    does_more_than_its_graph = True
    """A capture of it runs even if no op is cpuaccel's: it has the layers' products alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = structure_of(model)
        self.cache_name = cache_argument(type(model))
        self.has_positions = takes_positions(model)
        replace_attention(self.model)
        _replace_positions(self)
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
    trace.positions = positions
    with tracing(trace):
        return module.model(
            decoder_input_ids=tokens,
            encoder_outputs=_transformers_names.BaseModelOutput(last_hidden_state=states),
            attention_mask=None if caches_need_positions() else trace.cross_mark,
            decoder_attention_mask=trace.self_mark,
            use_cache=True,
            **{module.cache_name: _passing_caches(trace)},
            **given,
        )


class _Trace(TracedSites):
    """What the attentions of one call of a decoder hand to the attention function."""

    def __init__(self, biases: list[_Bias], known: list[Site], is_first: bool) -> None:
        super().__init__(known)
        self.self_mark, self.cross_mark = mask_mark(), mask_mark()
        self.cross_keys = torch.empty((1, 1, 1, 1))
        self.is_filled = True
        self._is_first = is_first
        self._biases = biases

    def attend(
        self, module: Any, query: Tensor, key: Any, value: Any, mask: Any, options: Any
    ) -> Tensor:
        """Take what an attention gives to the attention function, and return its result."""
        attend, options = self._function(module, dict(options))
        attended: Tensor
        if key is self.cross_keys and value is self.cross_keys:
            if mask is not None and mask is not self.cross_mark:
                raise Unsupported("a cross-attention has another mask than the encoder's")
            name = None if mask is None else CROSS
            site = Site(module, attend, module.layer_idx, name, options, is_cross=True)
            number = self.add(site)
            attended = torch.ops.cpuaccel.cross_attention(query, number)
            return attended
        layer = self.taken(key, value)
        if mask is not self.self_mark:
            raise Unsupported("an attention has another mask than transformers makes for the model")
        heads = heads_of(query, key, value)
        number = self.add(Site(module, attend, layer, SELF, options, heads))
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
        self.cross_keys = torch.empty((1, 1, 1, 1))  # nobody reads it
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

    cross = CrossCache(layers=[])
    cross.layers = _Layers(trace.cross_keys)
    both = _transformers_names.EncoderDecoderCache(passing_cache(trace), CrossCache(layers=[]))
    both.cross_attention_cache = cross
    both.is_updated = _IsUpdated(trace.is_filled)
    return both


class _Layers:
    """The layers of the cache of cross-attentions: a mark stands for all keys and values.

    Layers that repeat have no index that can be read while the first one is traced.
    """

    def __init__(self, mark: Tensor) -> None:
        self._layer = _Layer(mark)

    def __getitem__(self, layer: Any) -> _Layer:
        return self._layer

    def __len__(self) -> int:
        return 1


class _Layer:
    def __init__(self, mark: Tensor) -> None:
        self.keys = self.values = mark


class _IsUpdated:
    """Which layers have an encoder's keys and values: all of them, or none."""

    def __init__(self, is_filled: bool) -> None:
        self._is_filled = is_filled

    def get(self, *_: Any) -> bool:
        return self._is_filled

    def __setitem__(self, layer: Any, is_filled: bool) -> None:
        pass


def takes_positions(model: Any) -> bool:
    """Say whether a model's forward takes the positions of its decoder's tokens."""
    return "decoder_position_ids" in inspect.signature(type(model).forward).parameters


class _Positions(nn.Module):
    """In the place of a table of positions: reads the positions of the call, not the cache's."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table

    def forward(self, tokens: Any, *_: Any, **options: Any) -> Tensor:
        """Return the rows of the call's positions, which are the same for all texts of a batch."""
        if options.get(_POSITIONS) is None:
            raise Unsupported("its decoder computes positions by itself")
        found: Tensor = self.table(tokens, position_ids=running_trace().positions[0])
        return found


def _replace_positions(module: Any) -> None:
    """Let the decoder of BART and its kin, which only the caller has, read the call's positions."""
    decoder: Any = None if module.has_positions else module.model.get_decoder()
    table = getattr(decoder, "embed_positions", None)
    if isinstance(table, nn.Module) and _POSITIONS in inspect.signature(table.forward).parameters:
        decoder.embed_positions = _Positions(table)


_POSITIONS = "position_ids"
