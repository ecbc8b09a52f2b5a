"""The cases of the comparison: models, dtypes, and the speedups that cpuaccel aims at."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.models import _pictures

CNN, ENCODER, DECODER, PICTURE = "CNN", "encoder", "decoder step", "picture"
FP32, BF16, INT8 = "fp32", "bf16", "int8"
TYPES = (FP32, BF16, INT8)

# From the 24 in `_torchvision.MODELS`, without the second or third model of the larger families.
CNNS = (
    *("alexnet", "vgg16", "squeezenet1_1", "resnet18", "resnet50", "resnext50_32x4d"),
    *("densenet121", "googlenet", "inception_v3", "mobilenet_v2", "mobilenet_v3_small"),
    *("mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0"),
    *("efficientnet_v2_s", "regnet_y_400mf", "regnet_y_1_6gf", "regnet_x_800mf", "convnext_tiny"),
)
FEWER_CNNS = ("resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "googlenet")
"""A subset that still has every class of layers."""

TEXT = ("bert-base", "all-MiniLM-L6-v2")
IMAGES = ("vit_b_16",)
DECODERS = ("gpt2",)
SEQUENCES = (16, 128, 384)
CACHE = 512
"""Tokens in a decoder's cache."""

# For tests of the benchmarks.
_TINY = {"bert-tiny": ENCODER, "gpt2-tiny": DECODER}
PICTURES = tuple(_pictures.PICTURES)
FEWER_PICTURES = ("sam-mask-decoder", "clip-vit-b-32")
"""The pictures that need no diffusers, and little time."""

MODELS = (*CNNS, *TEXT, *IMAGES, *DECODERS, *PICTURES)
KIND = {
    **dict.fromkeys(CNNS, CNN),
    **dict.fromkeys((*TEXT, *IMAGES), ENCODER),
    **dict.fromkeys(DECODERS, DECODER),
    **dict.fromkeys(PICTURES, PICTURE),
    **_TINY,
}


@dataclass(frozen=True)
class Case:
    """A row of the table: a model in a dtype, `batch` inputs per call, on `threads` threads.

    `tokens` is the length of a text row or of a decoder's cache, 0 if there is none.
    """

    model: str
    type: str
    batch: int
    threads: int
    tokens: int = 0

    @property
    def kind(self) -> str:
        """CNN, encoder, decoder step or picture."""
        return KIND[self.model]

    @property
    def name(self) -> str:
        """The model and its tokens."""
        return f"{self.model}, {self.tokens} tokens" if self.tokens else self.model

    @property
    def group(self) -> tuple[str, str, int, int]:
        """The group that is averaged: kind, type, batch, threads."""
        return self.kind, self.type, self.batch, self.threads

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.name}, {self.type}, batch {self.batch}, {threads}"

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Aim:
    """The targeted speedup over `over`: of a group's geometric mean, and of each row.

    For the bound it is the share of the bound. 0 means no target.
    """

    over: str
    mean: float = 0.0
    each: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.mean:g}"] if self.mean else []
        parts += [f"each {self.each:g}"] if self.each else []
        return ", ".join(parts)


_LACKS = {DECODER: FP32, PICTURE: INT8}
"""The type in which a kind of model is not measured."""

OPENVINO, TORCH, BOUND = "openvino", "torch", "bound"

AIMS: dict[tuple[str, str], tuple[Aim, ...]] = {
    (CNN, INT8): (Aim(OPENVINO, mean=1.25, each=1.0), Aim(TORCH, mean=2.25)),
    **{(CNN, each): (Aim(OPENVINO, mean=1.1, each=0.97),) for each in (FP32, BF16)},
    **{(ENCODER, each): (Aim(OPENVINO, mean=1.1, each=1.0),) for each in TYPES},
    **{(PICTURE, each): (Aim(OPENVINO, each=1.1),) for each in (FP32, BF16)},
    **{(DECODER, each): (Aim(BOUND, each=0.9),) for each in (BF16, INT8)},
}


def cases(
    models: Iterable[str],
    types: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
    sequences: Sequence[int],
) -> list[Case]:
    """Every combination, those of a group together.

    A decoder has batch 1 and no fp32, and a picture batch 1 and no int8.
    """
    found = [
        Case(model, type_, batch, thread, length)
        for model in models
        for length in _lengths(model, sequences)
        for type_ in types
        for batch in batches
        for thread in threads
        if type_ != _LACKS.get(KIND[model]) and (batch == 1 or KIND[model] not in _LACKS)
    ]
    kinds = (CNN, ENCODER, DECODER, PICTURE)
    return sorted(
        found,
        key=lambda each: (
            *(each.threads, each.batch),
            *(kinds.index(each.kind), (INT8, FP32, BF16).index(each.type)),
        ),
    )


def _lengths(model: str, sequences: Sequence[int]) -> Sequence[int]:
    if KIND[model] == DECODER:
        return (16,) if model in _TINY else (CACHE,)
    return sequences if model not in (*CNNS, *IMAGES, *PICTURES) else (0,)
