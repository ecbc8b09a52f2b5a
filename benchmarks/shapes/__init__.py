"""The shapes of convolutions and linear layers in the benchmarked models; tests use them too.

`python -m benchmarks.shapes.collect` writes `qconv.csv`; `qlinear.csv` is written by hand.
"""

import csv
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_CONV = _FOLDER / "qconv.csv"
_LINEAR = _FOLDER / "qlinear.csv"


@dataclass(frozen=True)
class ConvShape:
    """A 2D convolution: input N x IC x H x W, OC filters of KH x KW, stride S, padding P, dilation
    D. `name` is a model and one of its layers that has this shape.
    """

    name: str
    N: int
    IC: int
    H: int
    W: int
    OC: int
    KH: int
    KW: int
    SH: int
    SW: int
    PH: int
    PW: int
    DH: int
    DW: int
    groups: int

    @cached_property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output, pixels."""
        return (
            (self.H + 2 * self.PH - self.DH * (self.KH - 1) - 1) // self.SH + 1,
            (self.W + 2 * self.PW - self.DW * (self.KW - 1) - 1) // self.SW + 1,
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one call."""
        height, width = self.out_size
        taps = self.IC // self.groups * self.KH * self.KW
        return self.N * self.OC * height * width * taps

    @property
    def kind(self) -> str:
        """The class of the summary: stem, depthwise, grouped, pointwise or dense."""
        if self.groups == 1 and self.IC <= 4:
            return "stem"
        if self.groups > 1:
            return "depthwise" if self.groups == self.IC == self.OC else "grouped"
        return "pointwise" if self.KH == self.KW == 1 else "dense"

    @property
    def channels(self) -> int:
        """The channels that a kernel vectorizes over: those of one group, or all if depthwise."""
        if self.kind in ("stem", "depthwise"):
            return self.OC
        return min(self.IC, self.OC) // self.groups

    def __str__(self) -> str:
        """Such as "144x56x56 -> 144 3x3 s1 p1 g144"."""
        text = f"{self.IC}x{self.H}x{self.W} -> {self.OC} {self.KH}x{self.KW}"
        for letter, a, b, usual in (
            ("s", self.SH, self.SW, 1),
            ("p", self.PH, self.PW, 0),
            ("d", self.DH, self.DW, 1),
        ):
            if (a, b) != (usual, usual):
                text += f" {letter}{a}" if a == b else f" {letter}{a},{b}"
        return text + (f" g{self.groups}" if self.groups > 1 else "")


@dataclass(frozen=True)
class LinearShape:
    """A linear layer: M rows of K features to N features."""

    name: str
    M: int
    K: int
    N: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one call."""
        return self.M * self.K * self.N

    def __str__(self) -> str:
        """Such as "M8 768 -> 3072"."""
        return f"M{self.M} {self.K} -> {self.N}"


def conv_shapes() -> list[ConvShape]:
    """The distinct convolutions of the benchmarked models, at batch 1."""
    return [ConvShape(row["name"], *_integers(row)) for row in _rows(_CONV)]


def linear_shapes() -> list[LinearShape]:
    """Linear layers of classifiers and transformers, at small and medium batch sizes."""
    return [LinearShape(row["name"], *_integers(row)) for row in _rows(_LINEAR)]


def write_conv_shapes(shapes: list[ConvShape]) -> Path:
    """Rewrites the table of convolutions and returns its path."""
    with _CONV.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(ConvShape)])
        writer.writerows(astuple(shape) for shape in shapes)
    return _CONV


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _integers(row: dict[str, str]) -> list[int]:
    return [int(value) for key, value in row.items() if key != "name"]
