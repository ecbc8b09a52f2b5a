"""PT2E's quantizer for this engine. It needs torchao, which the rest of cpuaccel does not."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

try:
    from torchao.quantization.pt2e.quantizer import (
        QuantizationConfig,
        SharedQuantizationSpec,
        get_bias_qspec,
        get_input_act_qspec,
        get_module_name_filter,
        get_weight_qspec,
    )
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        _X86InductorQuantizationAnnotation,
    )
except ImportError as error:
    raise ImportError(
        "cpuaccel.quant.pt2e: X86Quantizer is a subclass of torchao's X86InductorQuantizer, which"
        f" cannot be imported ({error}): expected torchao 0.18 or newer (pip install torchao)"
    ) from error

__all__ = ["X86Quantizer"]

_aten: Any = torch.ops.aten

_CONVOLUTIONS = (_aten.conv1d.default, _aten.conv2d.default, _aten.conv3d.default)
_TRANSPOSED = (_aten.conv_transpose2d.input, _aten.conv_transpose3d.input)
_LAYERS = (_aten.linear.default, *_CONVOLUTIONS, *_TRANSPOSED)

_TABLES = (
    *(_aten.silu.default, _aten.silu_.default, _aten.gelu.default, _aten.mish.default),
    *(_aten.hardswish.default, _aten.hardswish_.default),
    *(_aten.hardsigmoid.default, _aten.hardsigmoid_.default),
    *(_aten.sigmoid.default, _aten.tanh.default, _aten.elu.default, _aten.elu_.default),
    *(_aten.leaky_relu.default, _aten.leaky_relu_.default),
)
"""Activations that the engine's convolutions look up by the integer of their result."""

_AFTER_LINEAR = (_aten.hardswish.default, _aten.hardswish_.default)
"""Of these, what is a table behind a linear layer too: the classifiers of mobile networks. GELU and
SiLU are computed in the layer's kernel, because encoders need their digits."""

_BEFORE_ROUNDING = (
    *(_aten.relu.default, _aten.relu_.default, _aten.hardtanh.default, _aten.hardtanh_.default),
    *(_aten.clamp.default, _aten.dropout.default),
)
"""Ops that the engine runs with the op before them, before it rounds: they need no quantizer."""

_PAIRS = (_aten.add.Tensor, _aten.add_.Tensor, _aten.mul.Tensor, _aten.mul_.Tensor)

_VIEW_OPS = frozenset(
    {
        *(_aten.view.default, _aten.reshape.default, _aten.transpose.int, _aten.permute.default),
        *(_aten.contiguous.default, _aten.clone.default, _aten.slice.Tensor, operator.getitem),
        *(_aten.chunk.default, _aten.split.Tensor, _aten.split_with_sizes.default),
    }
)

_SAME_QUANTIZER = (
    *(_aten.max_pool2d.default, _aten.avg_pool2d.default, _aten.adaptive_avg_pool2d.default),
    *(_aten.mean.dim, _aten.flatten.using_ints, _aten.cat.default),
)
"""Ops on integers whose result has the quantizer of their source."""


class X86Quantizer(X86InductorQuantizer):  # type: ignore[misc]  # torchao has no types
    """torchao's `X86InductorQuantizer`, for all that this engine runs on integers.

    torchao's class finds layers by the function or module that they come from, and what follows
    them by fixed patterns. This class also quantizes, in what is static:

    - linear layers in `F.multi_head_attention_forward`, a third of a vision transformer's products
      (these in dynamic models too), and 1-D, 3-D and transposed convolutions;
    - the result of a convolution before SiLU, hardswish, sigmoid, GELU and other activations, and
      that of a linear layer before hardswish, which then are a table of 256 entries in the layer's
      kernel, as in models of convert_fx;
    - sums and products of two results of quantized ops, also with one factor for each image and
      channel, as in squeeze-and-excite;
    - pools, means over pixels and concatenations of such results.

    It uses the first configuration that is set of these: that of the node's module name, that of
    its type of op, the global one. If it is None, the node stays in float. In models that are
    trained with fake quantization (is_qat) it adds only linear layers. Everything else, and the
    setup, is torchao's:

        quantizer = X86Quantizer()
        quantizer.set_global(get_default_x86_inductor_quantization_config())
        model = prepare_pt2e(exported, quantizer)
    """

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate in place what is to be quantized in `model`, and return it."""
        model = super().annotate(model)
        for node in model.graph.nodes:
            config = self._config_of(node)
            if config is None or config.input_activation is None:
                continue
            if _is_annotated(node):
                if _is_static(config):
                    _improve(node, config)
            elif node.target is _aten.linear.default:
                _annotate_layer(node, config)
            elif _is_static(config):
                _annotate(node, config)
        return model

    def _config_of(self, node: Node) -> QuantizationConfig | None:
        if node.op != "call_function":
            return None
        for name, config in self.module_name_qconfig.items():
            if get_module_name_filter(name)(node):
                return config
        return self.operator_type_qconfig.get(node.target, self.global_config)


def _is_static(config: QuantizationConfig) -> bool:
    return not config.is_qat and not config.input_activation.is_dynamic


def _is_annotated(node: Node) -> bool:
    found = node.meta.get(Q_ANNOTATION_KEY)
    return found is not None and found._annotated


def _origin(node: Any) -> Any:
    """Return the node of whose elements `node` is a view; `node` itself if it is none."""
    while isinstance(node, Node) and node.target in _VIEW_OPS and not _is_annotated(node):
        node = node.args[0]
    return node


def _gives_integers(node: Any) -> bool:
    """Say whether a node is the result of ops that run on integers, or a view of it."""
    origin = _origin(node)
    found = origin.meta.get(Q_ANNOTATION_KEY) if isinstance(origin, Node) else None
    return found is not None and getattr(found, "_is_output_of_quantized_pattern", False)


def _spec_of(source: Any, config: QuantizationConfig) -> Any:
    """Return the quantizer of an input: for a view, that of its origin if the origin has one.

    A channel shuffle then copies integers, and the next concatenation needs no table.
    """
    origin = _origin(source)
    if origin is not source and origin.meta[Q_ANNOTATION_KEY].output_qspec is not None:
        return SharedQuantizationSpec(origin)
    return get_input_act_qspec(config)


def _is_float(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.dtype == torch.float32


def _set(node: Node, of_inputs: dict[Node, Any], output: Any = None) -> None:
    node.meta[Q_ANNOTATION_KEY] = _X86InductorQuantizationAnnotation(
        input_qspec_map=of_inputs,
        output_qspec=output,
        _annotated=True,
        _is_output_of_quantized_pattern=True,
    )


def _improve(node: Node, config: QuantizationConfig) -> None:
    """Change what torchao annotated."""
    if node.target in _TABLES:
        _annotate_table(node, config)
    elif node.target in _LAYERS and _gives_integers(node.args[0]):
        of_inputs = node.meta[Q_ANNOTATION_KEY].input_qspec_map
        if node.args[0] in of_inputs:
            of_inputs[node.args[0]] = _spec_of(node.args[0], config)


def _annotate(node: Node, config: QuantizationConfig) -> None:
    target: Any = node.target
    if target in _CONVOLUTIONS or (target in _TRANSPOSED and _has_one_group(node)):
        _annotate_layer(node, config)
    elif target in _TABLES:
        _annotate_table(node, config)
    elif target in _BEFORE_ROUNDING:
        if _gives_integers(node.args[0]):
            _set(node, {})
    elif target in _PAIRS:
        _annotate_pair(node, config)
    elif target in _SAME_QUANTIZER:
        _annotate_with_same_quantizer(node, config)


def _has_one_group(node: Node) -> bool:
    return len(node.args) < 7 or bool(node.args[6] == 1)


def _annotate_layer(node: Node, config: QuantizationConfig) -> None:
    of_weight = get_weight_qspec(config)
    if node.target in _TRANSPOSED and of_weight is not None and of_weight.ch_axis is not None:
        of_weight = dataclasses.replace(of_weight, ch_axis=1)
    specs = (get_input_act_qspec(config), of_weight, get_bias_qspec(config))
    pairs = zip(node.args, specs, strict=False)
    _set(node, {each: spec for each, spec in pairs if isinstance(each, Node)})


def _annotate_table(node: Node, config: QuantizationConfig) -> None:
    source: Any = node.args[0]
    is_linear = source.target is _aten.linear.default and node.target in _AFTER_LINEAR
    if not is_linear and source.target not in (*_CONVOLUTIONS, *_TRANSPOSED):
        return
    if len(source.users) == 1 and _is_annotated(source):
        _set(node, {source: get_input_act_qspec(config)})


def _annotate_pair(node: Node, config: QuantizationConfig) -> None:
    pair: Any = node.args[:2]
    if len(set(pair)) != 2 or node.kwargs.get("alpha", 1) != 1:
        return
    if all(_gives_integers(each) and _is_float(each) for each in pair) and _fits(*pair):
        _set(node, {each: _spec_of(each, config) for each in pair})


def _fits(a: Any, b: Any) -> bool:
    """Say whether sizes are the same, or one has a number for each image and channel."""
    sizes_a, sizes_b = (each.meta["val"].shape for each in (a, b))
    if len(sizes_a) != len(sizes_b):
        return False
    if sizes_a == sizes_b:
        return True
    if len(sizes_a) < 3 or sizes_a[:2] != sizes_b[:2]:
        return False
    return any(all(size == 1 for size in sizes[2:]) for sizes in (sizes_a, sizes_b))


def _annotate_with_same_quantizer(node: Node, config: QuantizationConfig) -> None:
    given: Any = node.args[0]
    sources = list(given) if isinstance(given, Sequence) else [given]
    if not sources or not all(_gives_integers(each) and _is_float(each) for each in sources):
        return
    if node.target is _aten.mean.dim and not _is_over_pixels(node):
        return
    first = sources[0]
    shared = SharedQuantizationSpec((first, node))
    of_inputs = {first: _spec_of(first, config)}
    of_inputs.update({each: shared for each in sources[1:] if each is not first})
    _set(node, of_inputs, shared)


def _is_over_pixels(node: Node) -> bool:
    source: Any
    dims: Any
    source, dims = node.args[:2]
    return source.meta["val"].dim() == 4 and {dim % 4 for dim in dims} == {2, 3}
