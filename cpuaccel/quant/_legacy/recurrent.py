"""LSTM and GRU of quantize_dynamic, on int8 tensors: torch's formulas, with plain ops.

As torch does, a layer quantizes the whole sequence at once for the input's product, and the hidden
state at each step for the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.layers import dynamic_linear
from cpuaccel.quant._legacy.packed import Cell

_GATES = {"LSTM": 4, "GRU": 3}
_SEQUENCE_DIMENSIONS = 3


class _Recurrent(nn.Module):
    """Layers and directions of an LSTM or GRU."""

    name = ""

    def __init__(
        self, cells: list[Cell], num_layers: int, bidirectional: bool, batch_first: bool
    ) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.num_directions = 2 if bidirectional else 1
        self.batch_first = batch_first
        if num_layers < 1 or len(cells) != num_layers * self.num_directions:
            raise LegacyError(
                f"damaged {self.name}: {len(cells)} cells for {num_layers} layers in"
                f" {self.num_directions} directions"
            )
        for cell in cells:
            check_cell(self.name, cell)
        self.input_products = nn.ModuleList([_product(cell, "input") for cell in cells])
        self.hidden_products = nn.ModuleList([_product(cell, "hidden") for cell in cells])
        self.hidden_size = cells[0].hidden.weight.q.shape[1]  # type: ignore[union-attr]
        self.eval()

    def _begin(self, input: Tensor) -> Tensor:
        if not isinstance(input, Tensor) or input.dim() != _SEQUENCE_DIMENSIONS:
            raise TypeError(
                f"{self.name} of cpuaccel.quant.load_legacy: input: expected a tensor of 3"
                f" dimensions, got {type(input).__name__}. PackedSequence and single sequences are"
                " not supported: pad, or unsqueeze"
            )
        return input.transpose(0, 1) if self.batch_first else input

    def _zeros(self, steps: Tensor) -> Tensor:
        count = self.num_layers * self.num_directions
        return steps.new_zeros(count, steps.shape[1], self.hidden_size)

    def _layers(self, steps: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Run all layers; return the output and the last states, stacked."""
        ends: list[list[Tensor]] = [[] for _ in states]
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.num_directions):
                index = layer * self.num_directions + direction
                gates = self.input_products[index](steps).unbind(0)
                state = [each[index] for each in states]
                done: list[Tensor] = []
                for each in reversed(gates) if direction else gates:
                    state = self._step(each, self.hidden_products[index](state[0]), state)
                    done.append(state[0])
                outputs.append(torch.stack(done[::-1] if direction else done))
                for end, last in zip(ends, state, strict=True):
                    end.append(last)
            steps = torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
        steps = steps.transpose(0, 1) if self.batch_first else steps
        return steps, [torch.stack(each) for each in ends]

    def _step(self, of_input: Tensor, of_hidden: Tensor, state: list[Tensor]) -> list[Tensor]:
        raise NotImplementedError


class LSTM(_Recurrent):
    """A dynamic LSTM: input (steps, batch, features), or with `batch_first` (batch, steps, ...)."""

    name = "LSTM"

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the output, and the last hidden and cell states."""
        steps = self._begin(input)
        states = list(hx) if hx is not None else [self._zeros(steps), self._zeros(steps)]
        output, (hidden, cell) = self._layers(steps, states)
        return output, (hidden, cell)

    def _step(self, of_input: Tensor, of_hidden: Tensor, state: list[Tensor]) -> list[Tensor]:
        return lstm_step(of_input, of_hidden, state[1])


class GRU(_Recurrent):
    """A dynamic GRU: input (steps, batch, features), or with `batch_first` (batch, steps, ...)."""

    name = "GRU"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the output and the last hidden state."""
        steps = self._begin(input)
        output, (hidden,) = self._layers(steps, [self._zeros(steps) if hx is None else hx])
        return output, hidden

    def _step(self, of_input: Tensor, of_hidden: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [gru_step(of_input, of_hidden, state[0])]


class _OneCell(nn.Module):
    def __init__(self, cell: Cell, name: str) -> None:
        super().__init__()
        check_cell(name, cell)
        self.input_product = _product(cell, "input")
        self.hidden_product = _product(cell, "hidden")
        self.hidden_size = cell.hidden.weight.q.shape[1]  # type: ignore[union-attr]
        self.eval()

    def _zeros(self, input: Tensor) -> Tensor:
        return input.new_zeros(input.shape[0], self.hidden_size)


class LSTMCell(_OneCell):
    """A dynamic LSTM cell: input (batch, features)."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell, "LSTM")

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell states."""
        hidden, cell = hx if hx is not None else (self._zeros(input), self._zeros(input))
        after = lstm_step(self.input_product(input), self.hidden_product(hidden), cell)
        return after[0], after[1]


class GRUCell(_OneCell):
    """A dynamic GRU cell: input (batch, features)."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell, "GRU")

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        hidden = self._zeros(input) if hx is None else hx
        return gru_step(self.input_product(input), self.hidden_product(hidden), hidden)


def lstm_step(of_input: Tensor, of_hidden: Tensor, cell: Tensor) -> list[Tensor]:
    """Return the next hidden and cell states."""
    i, f, g, o = (of_input + of_hidden).chunk(4, 1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return [o.sigmoid() * after.tanh(), after]


def gru_step(of_input: Tensor, of_hidden: Tensor, hidden: Tensor) -> Tensor:
    """Return the next hidden state."""
    (r, z, n), (hr, hz, hn) = of_input.chunk(3, 1), of_hidden.chunk(3, 1)
    new = (n + hn * (hr + r).sigmoid()).tanh()
    return (hidden - new) * (hz + z).sigmoid() + new


def check_cell(name: str, cell: Any) -> None:
    """Raise LegacyError unless the shapes of a cell fit together."""
    if not isinstance(cell, Cell):
        raise LegacyError(f"damaged {name}: its weights are missing")
    shapes = []
    for layer in (cell.input, cell.hidden):
        if isinstance(layer.weight, Tensor):
            raise LegacyError(f"{name} with float16 weights: only int8 weights are supported")
        shapes.append(tuple(layer.weight.q.shape))
    (rows, _), (hidden_rows, hidden) = shapes
    if rows != hidden_rows or rows != _GATES[name] * hidden:
        raise LegacyError(f"damaged {name}: weights of shapes {shapes[0]} and {shapes[1]}")


def _product(cell: Cell, which: str) -> nn.Module:
    return dynamic_linear(getattr(cell, which), cell.reduce_range)
