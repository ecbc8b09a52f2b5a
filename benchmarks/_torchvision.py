"""torchvision's classification models with random weights, on a machine without CUDA."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._arguments import check_known

_SEED = 2024
_NORM_BATCHES = 3
_NORM_BATCH = 4


@dataclass(frozen=True)
class Model:
    """A torchvision model name and the side of its square input in pixels."""

    name: str
    size: int = 224


MODELS: tuple[Model, ...] = (
    Model("alexnet"),
    Model("vgg11"),
    Model("vgg16"),
    Model("squeezenet1_1"),
    Model("resnet18"),
    Model("resnet34"),
    Model("resnet50"),
    Model("wide_resnet50_2"),
    Model("resnext50_32x4d"),
    Model("densenet121"),
    Model("googlenet"),
    Model("inception_v3", 299),
    Model("mobilenet_v2"),
    Model("mobilenet_v3_small"),
    Model("mobilenet_v3_large"),
    Model("mnasnet1_0"),
    Model("shufflenet_v2_x1_0"),
    Model("efficientnet_b0"),
    Model("efficientnet_b1", 240),
    Model("efficientnet_v2_s", 384),
    Model("regnet_y_400mf"),
    Model("regnet_y_1_6gf"),
    Model("regnet_x_800mf"),
    Model("convnext_tiny"),
)

TRANSFORMERS: tuple[Model, ...] = (Model("vit_b_16"),)
"""Measured in float only; the int8 benchmarks use text encoders."""

ALL = (*MODELS, *TRANSFORMERS)

# The auxiliary classifiers run in training only, but weights=None would turn them on.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}


def input_size(name: str) -> int:
    """Side in pixels of the square input for `name`."""
    sizes = {model.name: model.size for model in ALL}
    check_known([name], sizes, "model")
    return sizes[name]


def images(name: str, batch: int, seed: int = _SEED) -> Tensor:
    """`batch` random images for `name`, float32 NCHW, mean about 0 and deviation about 1.

    They are blobs with some noise on top: white noise gives nearly the same features in every
    image.
    """
    size = input_size(name)
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, 3, 8, 8, generator=generator)
    blobs = nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    return blobs + 0.3 * torch.randn(batch, 3, size, size, generator=generator)


def build(name: str) -> nn.Module:
    """Builds `name` in eval mode with seeded random weights and matching batch norm statistics.

    The weights of a name are the same in every process. The global random state is not changed.
    """
    input_size(name)
    torchvision = import_torchvision()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        model: nn.Module = torchvision.models.get_model(
            name, weights=None, **_ARGUMENTS.get(name, {})
        )
    steps = range(_NORM_BATCHES)
    settle_norms(model, ((images(name, _NORM_BATCH, seed=_SEED + 1 + step),) for step in steps))
    return model.eval()


def import_torchvision() -> Any:
    """Imports torchvision even if its compiled extension does not load."""
    if importlib.util.find_spec("torchvision") is None:
        raise ModuleNotFoundError("torchvision is not installed: pip install torchvision")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")
        try:
            return importlib.import_module("torchvision")
        except RuntimeError as error:
            # Only a failed import shows whether its ops are missing: the names of its libraries
            # differ by version, and a schema that a library defines again ends the process.
            if "operator torchvision::" not in str(error):
                raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _define_missing_schemas()
        return importlib.import_module("torchvision")


# Kept alive: the schemas are deregistered with the library object.
_fragments: list[Any] = []


def _define_missing_schemas() -> None:
    """Defines the schemas of two ops for which torchvision registers a fake kernel unconditionally.

    Up to 0.28, the extension of PyPI's torchvision needs CUDA's libraries, so beside a CPU build of
    torch it does not load and its ops do not exist. torchvision then skips the other fake kernels,
    but not these two, and the import fails with "operator torchvision::nms does not exist". No
    classification model calls them.
    """
    missing = [op for op in ("nms", "qnms") if not hasattr(torch.ops.torchvision, op)]
    if not missing:
        return
    library: Any = torch.library
    fragment = library.Library("torchvision", "FRAGMENT")
    for op in missing:
        fragment.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _fragments.append(fragment)


def settle_norms(model: nn.Module, batches: Iterable[tuple[Tensor, ...]]) -> None:
    """Measures batch norm statistics on `batches`; each batch is a tuple of model inputs.

    With the initial mean 0 and variance 1, random weights make activations grow or vanish layer by
    layer. An int8 model would then hold only zeros and saturated values.
    """
    model.eval()
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(*batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
