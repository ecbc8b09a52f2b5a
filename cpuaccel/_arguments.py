"""Checks of arguments that public functions share, with the same error messages."""

from __future__ import annotations

from typing import Any


def checked_inputs(function: str, example_inputs: Any) -> tuple[Any, ...]:
    """Return `example_inputs` as a tuple; `function` is the public function that takes them.

    Raises:
        TypeError: they are not a tuple or list.
    """
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(
            f"{function}: example_inputs: expected a tuple of the arguments of a call, got "
            f"{type(example_inputs).__name__}"
        )
    return tuple(example_inputs)
