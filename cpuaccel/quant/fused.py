"""The modules that `cpuaccel.quant.fuse` puts into a model: a layer fused with what follows it.

Results equal those of torch's ops one after the other, whether the engine is on or off. The modules
can be copied, pickled, saved and scripted. Loading or making one needs cpuaccel's compiled module.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.jit import is_scripting  # type: ignore[attr-defined]

from cpuaccel._compat import is_tracing
from cpuaccel.quant import _bound as bound
from cpuaccel.quant._front_end import require_front_end

require_front_end("cpuaccel.quant.fused")  # loads the compiled module, which registers the ops


class Fused(nn.Module):
    """Base class: the quantizer of the result, and the ops that the module replaces."""

    _saved_scalars: tuple[str, ...] = ("scale", "zero_point")
    """Attributes that the state dict has as one-element tensors."""

    def __init__(self, scale: float, zero_point: int, ops: tuple[str, ...]) -> None:
        super().__init__()
        self.scale = float(scale)
        """Scale of the result."""
        self.zero_point = int(zero_point)
        """Zero point of the result."""
        self.ops = tuple(ops)
        """The ops that the module replaces, in their order."""
        self.eval()

    def extra_repr(self) -> str:
        return f"{' + '.join(self.ops)}, scale={self.scale}, zero_point={self.zero_point}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._saved_scalars:
            value = getattr(self, name)
            kind = torch.float64 if isinstance(value, float) else torch.int64
            destination[prefix + name] = torch.tensor(value, dtype=kind)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name in self._saved_scalars:
            if prefix + name in state_dict:
                kind = type(getattr(self, name))
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class QuantizedTable(Fused):
    """Any elementwise function of one quint8 tensor: `table[x]`."""

    table: Tensor

    def __init__(self, table: Tensor, scale: float, zero_point: int, ops: tuple[str, ...]) -> None:
        super().__init__(scale, zero_point, ops)
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.cpuaccel.quantized_table(
            x, self.table, self.scale, self.zero_point
        )
        return result


class ShuffleChannels(Fused):
    """A concatenation, a channel shuffle, one of its chunks and a table.

    `table[channel_shuffle(cat(xs, 1), groups).chunk(chunks, 1)[chunk]]`
    """

    table: Tensor | None

    def __init__(
        self,
        groups: int,
        chunks: int,
        chunk: int,
        table: Tensor | None,
        scale: float,
        zero_point: int,
        ops: tuple[str, ...],
    ) -> None:
        super().__init__(scale, zero_point, ops)
        self.groups, self.chunks, self.chunk = groups, chunks, chunk
        self.register_buffer("table", table)

    def forward(self, xs: list[Tensor]) -> Tensor:
        result: Tensor = torch.ops.cpuaccel.shuffle_channels(
            xs, self.groups, self.chunks, self.chunk, self.table, self.scale, self.zero_point
        )
        return result

    def extra_repr(self) -> str:
        part = f", chunk {self.chunk} of {self.chunks}" if self.chunks > 1 else ""
        return f"{super().extra_repr()}, groups={self.groups}{part}"


class FusedLayer(Fused):
    """A convolution or linear layer, and what follows it."""

    kind = ""
    op = ""
    """The op that `forward` calls. Python calls use `_bound_call`, which is much faster."""
    __jit_ignored_attributes__ = ("_call",)
    _call: tuple[Any, Tensor | None] | None = None

    def __init__(self, packed: Any, relu: bool, *, detail: str, **result: Any) -> None:
        super().__init__(**result)
        self._packed_params = packed
        self.relu = relu
        """Whether the layer has a ReLU of its own."""
        self.detail = detail
        """The layer's own `extra_repr`."""

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("_call", None)
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_call"}

    def _bound_call(self, x: Tensor) -> Any:
        """Return `op` with all arguments except tensors bound, or None.

        It is None for Tensor subclasses, and while torch traces or compiles.
        """
        if type(x) is not Tensor or is_tracing() or torch.compiler.is_compiling():
            return None
        table = self._buffers.get("table")
        call = self._call  # read once: another thread may change the module meanwhile
        if call is None or call[1] is not table:
            call = self.__dict__["_call"] = bound.bind(self.op, self), table
        return call[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}; {self.ops[0]}: {self.detail}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight, bias = self._packed_params.unpack()
        destination[prefix + "weight"] = weight
        destination[prefix + "bias"] = bias

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        names = [prefix + "weight", prefix + "bias"]
        if all(name in state_dict for name in names):
            self._pack(*(state_dict.pop(name) for name in names))
        elif strict:
            missing_keys.extend(name for name in names if name not in state_dict)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _pack(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack other weights for the engine that is set, with the geometry of the current ones."""
        packed, quantized = self._packed_params, torch.ops.quantized
        if self.kind == "linear":
            self._packed_params = quantized.linear_prepack(weight, bias)
            return
        arguments = [weight, bias, packed.stride(), packed.padding()]
        prepack = quantized.conv2d_prepack
        if packed.transpose():
            arguments.append(packed.output_padding())
            prepack = quantized.conv_transpose2d_prepack
        self._packed_params = prepack(*arguments, packed.dilation(), packed.groups())


class FollowedLayer(FusedLayer):
    """A layer whose result has a quantizer of its own, other than that of what follows it."""

    _saved_scalars: tuple[str, ...] = (*Fused._saved_scalars, "own_scale", "own_zero_point")

    def __init__(
        self, packed: Any, own_scale: float, own_zero_point: int, relu: bool, **result: Any
    ) -> None:
        super().__init__(packed, relu, **result)
        self.own_scale = float(own_scale)
        """Scale of the layer's own result."""
        self.own_zero_point = int(own_zero_point)
        """Zero point of the layer's own result."""


class FusedTable(FollowedLayer):
    """A layer fused with a function of its result: `table[layer(x)]`."""

    table: Tensor

    def __init__(self, *layer: Any, table: Tensor, **result: Any) -> None:
        super().__init__(*layer, **result)
        self.register_buffer("table", table)


class FusedBinary(FollowedLayer):
    """A layer, a table or none, and a sum or product: `table[layer(x)] + other`."""

    table: Tensor | None
    _saved_scalars = (*FollowedLayer._saved_scalars, "table_scale", "table_zero_point")

    def __init__(
        self,
        *layer: Any,
        table: Tensor | None,
        table_scale: float,
        table_zero_point: int,
        then_relu: bool,
        **result: Any,
    ) -> None:
        super().__init__(*layer, **result)
        self.register_buffer("table", table)
        self.table_scale = float(table_scale)
        """Scale of the table's values."""
        self.table_zero_point = int(table_zero_point)
        """Zero point of the table's values."""
        self.then_relu = then_relu
        """Whether a ReLU comes last."""


def _layer_forward(plain: Any, with_relu: Any) -> Any:
    """Return the `forward` of a layer that calls one of two ops of torch."""

    def forward(self: Any, x: Tensor) -> Tensor:
        if not is_scripting():
            call = self._bound_call(x)
            if call is not None:
                fast: Tensor = call(x)
                return fast
        if self.relu:
            relu: Tensor = with_relu(x, self._packed_params, self.scale, self.zero_point)
            return relu
        result: Tensor = plain(x, self._packed_params, self.scale, self.zero_point)
        return result

    return forward


def _table_forward(op: Any) -> Any:
    """Return the `forward` of a `FusedTable` that calls `op`."""

    def forward(self: Any, x: Tensor) -> Tensor:
        if not is_scripting():
            call = self._bound_call(x)
            if call is not None:
                fast: Tensor = call(x)
                return fast
        result: Tensor = op(
            x,
            self._packed_params,
            self.own_scale,
            self.own_zero_point,
            self.relu,
            self.table,
            self.scale,
            self.zero_point,
        )
        return result

    return forward


def _binary_forward(op: Any) -> Any:
    """Return the `forward` of a `FusedBinary` that calls `op`."""

    def forward(self: Any, x: Tensor, other: Tensor) -> Tensor:
        if not is_scripting():
            call = self._bound_call(x)
            if call is not None:
                fast: Tensor = call(x, other)
                return fast
        result: Tensor = op(
            x,
            self._packed_params,
            self.own_scale,
            self.own_zero_point,
            self.relu,
            self.table,
            self.table_scale,
            self.table_zero_point,
            other,
            self.scale,
            self.zero_point,
            self.then_relu,
        )
        return result

    return forward


class Conv2d(FusedLayer):
    """A convolution, transposed or not, behind which nothing is fused."""

    kind = "conv2d"
    forward = _layer_forward(torch.ops.quantized.conv2d, torch.ops.quantized.conv2d_relu)

    def __init__(self, packed: Any, relu: bool, **result: Any) -> None:
        super().__init__(packed, relu, **result)
        self.op = "quantized::conv2d_relu.new" if relu else "quantized::conv2d.new"


class Linear(FusedLayer):
    """A linear layer behind which nothing is fused."""

    kind = "linear"
    forward = _layer_forward(torch.ops.quantized.linear, torch.ops.quantized.linear_relu)

    def __init__(self, packed: Any, relu: bool, **result: Any) -> None:
        super().__init__(packed, relu, **result)
        self.op = "quantized::linear_relu" if relu else "quantized::linear"


class Conv2dTable(FusedTable):
    """A convolution, transposed or not, and a function of its result."""

    kind = "conv2d"
    op = "cpuaccel::conv2d_table"
    forward = _table_forward(torch.ops.cpuaccel.conv2d_table)


class LinearTable(FusedTable):
    """A linear layer and a function of its result."""

    kind = "linear"
    op = "cpuaccel::linear_table"
    forward = _table_forward(torch.ops.cpuaccel.linear_table)


class Conv2dAdd(FusedBinary):
    """A convolution, transposed or not, plus another tensor."""

    kind = "conv2d"
    op = "cpuaccel::conv2d_add"
    forward = _binary_forward(torch.ops.cpuaccel.conv2d_add)


class Conv2dMul(FusedBinary):
    """A convolution, transposed or not, times another tensor."""

    kind = "conv2d"
    op = "cpuaccel::conv2d_mul"
    forward = _binary_forward(torch.ops.cpuaccel.conv2d_mul)


class LinearAdd(FusedBinary):
    """A linear layer plus another tensor."""

    kind = "linear"
    op = "cpuaccel::linear_add"
    forward = _binary_forward(torch.ops.cpuaccel.linear_add)


class LinearMul(FusedBinary):
    """A linear layer times another tensor."""

    kind = "linear"
    op = "cpuaccel::linear_mul"
    forward = _binary_forward(torch.ops.cpuaccel.linear_mul)
