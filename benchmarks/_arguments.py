"""Types of command line arguments that the benchmarks share."""

import argparse


def names(text: str) -> list[str]:
    """A list from "a,b,c"."""
    return [name for name in text.split(",") if name]


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value
