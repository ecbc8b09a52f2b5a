"""Times regions against Inductor's code for the same nodes: `mode="max-autotune"` decides by it.

Only regions that the table takes are timed. The table leaves ops because of the ops around them, so
that they cannot be timed alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx

from cpuaccel import _log
from cpuaccel._compat import tracing, unset_fake_temporarily
from cpuaccel._interleaved_timing import medians
from cpuaccel.compile.bridge import QUANTIZED, torch_fallback
from cpuaccel.compile.partition.cost import Choice
from cpuaccel.compile.validate.verdict import NOISE, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuaccel.compile.partition.regions import Region

_ROUNDS = 7
_LEAST_SECONDS = 2e-3
"""Minimum time of one round: it consists of as many calls as take that long."""


class RegionTimer:
    """Times each region once, against Inductor with `patches` to its configuration."""

    def __init__(self, patches: dict[str, Any]) -> None:
        self._patches = patches
        self._choices: dict[str, Choice] = {}

    def __call__(self, region: Region) -> Choice:
        """Return whether `region` is faster than Inductor's code for it, with the times."""
        text = region.plan_text.text
        if text not in self._choices:
            self._choices[text] = self._run(region)
        return self._choices[text]

    def _run(self, region: Region) -> Choice:
        if any(op.kind in QUANTIZED for part in region.plan_text.partitions for op in part):
            return Choice(True, "not timed: Inductor computes quantized layers in float")
        try:
            times = time_region(region, self._patches)
        except Exception as error:
            reason = _log.first_line(error)
            _log.logger.warning("max-autotune: a region is not timed: %s", reason)
            return Choice(True, f"not timed: {reason}")
        return Choice(times.region <= NOISE * times.inductor, f"timed: {times}")


@dataclass(frozen=True)
class Times:
    """Seconds of one call: medians of rounds in turns."""

    region: float
    inductor: float

    def __str__(self) -> str:
        return f"region {in_words(self.region)}, Inductor {in_words(self.inductor)}"


def time_region(region: Region, patches: dict[str, Any]) -> Times:
    """Return the times of a call of `region`, and of Inductor's code for it with `patches`.

    Inputs are random, with the sizes that were traced.

    Raises:
        Exception: what Inductor raises if it cannot compile the nodes.
    """
    nodes = (region.inputs, region.constants, region.nodes)
    text = torch_fallback.encode(*nodes, region.results)
    # Inductor's code returns only `outputs`, which are read elsewhere, not the mutated inputs.
    returned = torch_fallback.encode(*nodes, region.outputs)
    with _away_from_tracing():
        numbers = [*region.plan_text.inputs, *region.plan_text.constants]
        read = [*region.inputs, *region.constants]
        tensors = [
            _random(node, region.plan_text.values[number].sizes)
            for node, number in zip(read, numbers, strict=True)
        ]
        count = len(region.inputs)
        inputs, constants = tensors[:count], tensors[count:]

        op, arguments = region.call(inputs, constants, text)
        compiled = _inductor(returned, inputs, constants, patches)
        return _take_turns(lambda: op(*arguments), lambda: compiled(*tensors))


def _inductor(
    text: str, inputs: Sequence[Tensor], constants: Sequence[Tensor], patches: dict[str, Any]
) -> Callable[..., Any]:
    from cpuaccel._compat import inductor_compile_fx

    count = len(inputs)

    def by_torch(*tensors: Tensor) -> list[Tensor]:
        return torch_fallback.run(tensors[:count], tensors[count:], text)

    tensors = [*inputs, *constants]
    compile_fx = cast("Callable[..., Callable[..., Any]]", inductor_compile_fx.compile_fx)
    return compile_fx(make_fx(by_torch)(*tensors), tensors, config_patches=patches)


@contextmanager
def _away_from_tracing() -> Iterator[None]:
    """Allow real tensors, and a new compilation, inside the compilation that is running."""
    with ExitStack() as stack:
        stack.enter_context(tracing(None))
        stack.enter_context(disable_proxy_modes_tracing())
        stack.enter_context(unset_fake_temporarily())
        stack.enter_context(torch.no_grad())
        yield


def _random(node: Node, sizes: tuple[int, ...]) -> Tensor:
    fake = node.meta["val"]
    strides = fake.stride()
    if all(isinstance(stride, int) for stride in strides):
        tensor = torch.empty_strided(sizes, strides, dtype=fake.dtype)
    else:
        tensor = torch.empty(sizes, dtype=fake.dtype)
    return tensor.normal_() if fake.dtype.is_floating_point else tensor.zero_()


def _take_turns(region: Callable[[], Any], inductor: Callable[[], Any]) -> Times:
    calls = {"region": region, "inductor": inductor}
    repeats = {}
    for name, call in calls.items():
        call()  # compiles, packs
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(_LEAST_SECONDS / max(time.perf_counter() - start, 1e-9)))
    return Times(**medians(calls, repeats, _ROUNDS))
