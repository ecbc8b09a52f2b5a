"""Parses the text of a region: the inverse of `PlanText.text`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cpuaccel.compile.bridge.plan_text import TYPES, Attribute, Operation, Output, PlanText, Value

_TYPES = {name: dtype for dtype, name in TYPES.items()} | {"other": torch.int64}
""""other" stands for any dtype that TYPES lacks; int64 is a placeholder."""


def parse(text: str) -> PlanText:
    """Return the `PlanText` whose `text` this is.

    Raises:
        ValueError: it is not the text of a region; the message names the line.
    """
    plan = PlanText({}, [], [], [], [], [])
    for number, line in enumerate(text.splitlines(), 1):
        try:
            word, *rest = line.split()
            _LINES[word](plan, rest)
        except (ValueError, KeyError, IndexError) as error:
            shown = f"line {number}, {line[:80]!r}"
            raise ValueError(f"not the text of a region: {shown}: {error!r}") from error
    return plan


def _version(plan: PlanText, words: list[str]) -> None:
    if words[0] != "1":
        raise ValueError(f"expected version 1, got {words[0]}")


def _value(plan: PlanText, words: list[str]) -> None:
    number, dtype, sizes = words
    found = () if sizes == "-" else tuple(map(int, sizes.split("x")))
    plan.values[int(number)] = Value(_TYPES[dtype], found)


def _inputs(plan: PlanText, words: list[str]) -> None:
    plan.inputs.extend(map(int, words))


def _constants(plan: PlanText, words: list[str]) -> None:
    plan.constants.extend(map(int, words))


def _output(plan: PlanText, words: list[str]) -> None:
    value, order = words
    if order not in ("channels_last", "contiguous"):
        raise ValueError(f"expected channels_last or contiguous, got {order}")
    plan.outputs.append(Output(int(value), order == "channels_last"))


def _preparation(plan: PlanText, words: list[str]) -> None:
    plan.preparations.append(_read_operation(words))


def _partition(plan: PlanText, words: list[str]) -> None:
    plan.partitions.append([])


def _operation(plan: PlanText, words: list[str]) -> None:
    plan.partitions[-1].append(_read_operation(words))


_LINES: dict[str, Callable[[PlanText, list[str]], None]] = {
    "graph": _version,
    "value": _value,
    "input": _inputs,
    "constant": _constants,
    "output": _output,
    "prepare": _preparation,
    "partition": _partition,
    "op": _operation,
}


def _read_operation(words: list[str]) -> Operation:
    kind, into, *rest = words
    out = rest.index("out")
    if into != "in":
        raise ValueError(f"expected 'in', got {into!r}")
    inputs, results = rest[:out], [word for word in rest[out + 1 :] if "=" not in word]
    attributes = {}
    for word in rest[out + 1 + len(results) :]:
        name, _, value = word.partition("=")
        attributes[name] = _read_attribute(value)
    return Operation(kind, tuple(map(int, inputs)), tuple(map(int, results)), attributes)


def _read_attribute(text: str) -> Attribute:
    kind, _, value = text.partition(":")
    if kind in ("is", "fs"):
        return [_number(each) for each in value.split(",") if each]
    return _ATTRIBUTES[kind](value)


_ATTRIBUTES: dict[str, Callable[[str], Attribute]] = {
    "b": lambda text: bool(int(text)),
    "i": int,
    "f": float,
    "s": str,
}


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)
