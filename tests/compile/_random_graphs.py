"""Random models: graphs of ops that the bridge supports, and of some that it does not.

One seed gives one model. Ops are drawn one after another and computed at once, so that each draw
sees real sizes. An op is drawn again if its result is too large, empty or not finite.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Draw = Callable[["Drawing", Tensor], "Step | None"]

_MAX_NUMBERS = 20_000
_MAX_VALUE = 500.0
_TRIES = 8
_WAYS = ("plain", "last", "sliced", "permuted", "expanded", "offset")


class Step(nn.Module):
    """One op: a function of values of the graph, and its own parameters."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *others: int,
        **own: nn.Module | nn.Parameter,
    ) -> None:
        super().__init__()
        self.name = name
        self.function = function
        self.operands = others
        """Numbers of the values that it reads beside the first."""
        for key, each in own.items():
            setattr(self, key, each)

    def forward(self, *values: Tensor) -> Any:
        """Apply the op to these values."""
        return self.function(self, *values)


class RandomModel(nn.Module):
    """Steps in order; each adds one value, or several."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.steps = nn.ModuleList()
        self.reads: list[tuple[int, ...]] = []
        self.results: list[int] = []

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the values that were drawn as results."""
        values = list(inputs)
        for step, reads in zip(self.steps, self.reads, strict=True):
            made = step(*(values[number] for number in reads))
            values.extend(made if isinstance(made, tuple) else [made])
        return tuple(values[number] for number in self.results)

    def __str__(self) -> str:
        """Name the ops and the values they read, to identify a failure."""
        lines = [
            f"{getattr(step, 'name', '')}{reads}"
            for step, reads in zip(self.steps, self.reads, strict=True)
        ]
        return f"{self.inputs} inputs; {' '.join(lines)}; returns {self.results}"


@dataclass
class Drawing:
    """The state of a draw: the values so far, and the random generator."""

    dice: random.Random
    values: list[Tensor]
    bf16: bool

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.dice.random() < probability

    def tensor(self, sizes: Sequence[int]) -> Tensor:
        """Return numbers around one."""
        return torch.randn(tuple(sizes))

    def parameter(self, sizes: Sequence[int], scale: float = 1.0) -> nn.Parameter:
        """Return a weight of these sizes."""
        return nn.Parameter(self.tensor(sizes) * scale)

    def like(self, x: Tensor, differs: Sequence[int] = ()) -> list[int]:
        """Return the values with the sizes of `x`, except in dimensions `differs`."""

        def fits(other: Tensor) -> bool:
            return other.dim() == x.dim() and all(
                dim in differs or a == b
                for dim, (a, b) in enumerate(zip(other.shape, x.shape, strict=True))
            )

        return [number for number, other in enumerate(self.values) if fits(other)]

    def sizes_that_broadcast(self, x: Tensor) -> list[int]:
        """Return sizes of an operand for `x`: some are 1, and some leading ones are missing."""
        sizes = [1 if self.chance(0.4) else size for size in x.shape]
        return sizes[self.dice.randrange(len(sizes)) if self.chance(0.3) else 0 :]


def draw(seed: int, ops: Sequence[tuple[Draw, float]], bf16: bool) -> tuple[RandomModel, list[Any]]:
    """Return the model of `seed`, and its inputs."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    inputs = [_laid_out(dice, _sizes(dice)) for _ in range(dice.choice((1, 1, 2, 3)))]
    drawing = Drawing(dice, list(inputs), bf16)
    model = RandomModel(len(inputs))
    for _ in range(dice.randint(3, 14)):
        _add(model, drawing, ops)
    model.results = _results(drawing, len(inputs))
    return model.eval(), inputs


def _add(model: RandomModel, drawing: Drawing, ops: Sequence[tuple[Draw, float]]) -> None:
    dice = drawing.dice
    functions, weights = zip(*ops, strict=True)
    for _ in range(_TRIES):
        # The newest value is chosen most often, because partitions consist of chains.
        last = len(drawing.values) - 1
        number = last if drawing.chance(0.7) else dice.randrange(last + 1)
        (function,) = dice.choices(functions, weights)
        if drawing.values[number].dim() == 0:
            continue
        step = function(drawing, drawing.values[number])
        if step is None:
            continue
        for module in step.modules():
            _settle(module)
        reads = (number, *step.operands)
        try:
            with torch.no_grad():
                made = step.eval()(*(drawing.values[each] for each in reads))
        except RuntimeError:  # sizes that torch rejects
            continue
        results = list(made) if isinstance(made, tuple) else [made]
        if all(map(_is_usable, results)):
            model.steps.append(step)
            model.reads.append(reads)
            drawing.values.extend(results)
            return


def _settle(module: nn.Module) -> None:
    """Give norms statistics with which they are not the identity."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        running: Any = module
        running.running_mean.normal_(0, 0.2)
        running.running_var.uniform_(0.5, 1.5)
        if module.affine:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)


def _is_usable(value: Tensor) -> bool:
    return (
        0 < value.numel() <= _MAX_NUMBERS
        and value.dim() <= 6
        and bool(value.isfinite().all())
        and float(value.abs().max()) < _MAX_VALUE
    )


def _results(drawing: Drawing, inputs: int) -> list[int]:
    dice, count = drawing.dice, len(drawing.values)
    results = [count - 1]
    results += [dice.randrange(inputs, count) for _ in range(dice.choice((0, 0, 1, 2, 3)))]
    if drawing.chance(0.05):
        results.append(results[0])
    if drawing.chance(0.05):
        results.append(0)
    return results


def _sizes(dice: random.Random) -> tuple[int, ...]:
    batch = dice.choice((1, 2, 3))
    channels = dice.choice((1, 3, 4, 8, 12, 16))
    if dice.random() < 0.65:
        dims, side = dice.choice(((1, 24), (2, 14), (2, 14), (2, 14), (3, 7)))
        return (batch, channels, *(dice.randint(1 + side // 3, side) for _ in range(dims)))
    rank = dice.choice((1, 2, 2, 3, 3, 4))
    return tuple(dice.choice((1, 2, 3, 5, 8, 16)) for _ in range(rank))


def _laid_out(dice: random.Random, sizes: tuple[int, ...]) -> Tensor:
    """Return a tensor with one of the usual memory layouts."""
    rank = len(sizes)
    way = dice.choice((*_WAYS, "plain", "last"))
    if way == "last" and rank in (4, 5):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return torch.randn(sizes).contiguous(memory_format=formats[rank])
    if way == "sliced":
        dim = dice.randrange(rank)
        wide = [2 * size if d == dim else size for d, size in enumerate(sizes)]
        return torch.randn(wide).unfold(dim, 1, 2).squeeze(-1)
    if way == "permuted":
        order = dice.sample(range(rank), rank)
        back = [order.index(dim) for dim in range(rank)]
        return torch.randn([sizes[dim] for dim in order]).permute(back)
    if way == "expanded":
        dim = dice.randrange(rank)
        return torch.randn([1 if d == dim else s for d, s in enumerate(sizes)]).expand(sizes)
    if way == "offset":
        return torch.randn(3 + torch.Size(sizes).numel())[3:].view(sizes)
    return torch.randn(sizes)
