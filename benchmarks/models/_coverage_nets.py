"""torchvision's networks for the coverage benchmark, on small images if they accept them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._torchvision import import_torchvision, settle_norms
from benchmarks.models._coverage_case import Case, Inputs, vary

_SIDE = 64
_BATCH = 2
_NORM_BATCHES, _NORM_BATCH = 2, 16


@dataclass(frozen=True)
class _Net:
    """torchvision's name, and the sizes of one input: channels, then frames or pixels."""

    name: str
    sizes: tuple[int, ...] = (3, _SIDE, _SIDE)
    options: dict[str, Any] = field(default_factory=dict)
    images: int = 1
    """How many images it takes."""
    wrap: Callable[[Any], nn.Module] = lambda net: net
    quantizes: bool = True
    """Whether prepare_fx and convert_fx accept it."""

    def build(self) -> nn.Module:
        net = self.wrap(
            import_torchvision().models.get_model(self.name, **_NO_WEIGHTS, **self.options)
        )
        vary(net)
        generator = torch.Generator().manual_seed(0)
        settle_norms(net, (self._images(_NORM_BATCH, generator) for _ in range(_NORM_BATCHES)))
        return net

    def inputs(self, generator: torch.Generator) -> Inputs:
        return Inputs(self._images(_BATCH, generator))

    def _images(self, batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return tuple(
            torch.randn(batch, *self.sizes, generator=generator) for _ in range(self.images)
        )


_NO_WEIGHTS = {"weights": None}
_NO_BACKBONE = {"weights_backbone": None}
_NO_AUXILIARY = {"aux_logits": False, "init_weights": False}


class _Detector(nn.Module):
    """The network of a detector, from a batch of images up to the search for boxes."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.backbone, self.head = net.backbone, net.head

    def forward(self, images: Tensor) -> Any:
        """Features of each size, then a score and a box for each place."""
        return self.head(list(self.backbone(images).values()))


class _Flow(nn.Module):
    """RAFT with fewer steps than its twelve, because each step is unrolled."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, first: Tensor, second: Tensor) -> Any:
        """The flow from the first image to the second."""
        return self.net(first, second, num_flow_updates=2)


_NETS = (
    _Net("alexnet"),
    _Net("vgg11_bn"),
    _Net("squeezenet1_1"),
    _Net("resnet18"),
    _Net("resnet50"),
    _Net("resnext50_32x4d"),
    _Net("densenet121"),
    _Net("googlenet", options=_NO_AUXILIARY),
    _Net("inception_v3", (3, 128, 128), _NO_AUXILIARY),
    _Net("mobilenet_v2"),
    _Net("mobilenet_v3_large"),
    _Net("mnasnet1_0"),
    _Net("shufflenet_v2_x1_0"),
    _Net("efficientnet_b0"),
    _Net("efficientnet_v2_s"),
    _Net("regnet_x_400mf"),
    _Net("regnet_y_400mf"),
    _Net("convnext_tiny"),
    _Net("vit_b_16", options={"image_size": _SIDE}, quantizes=False),
    _Net("swin_t", quantizes=False),
    _Net("swin_v2_t", quantizes=False),
    _Net("maxvit_t", (3, 224, 224), quantizes=False),
    _Net("fcn_resnet50", options=_NO_BACKBONE),
    _Net("deeplabv3_mobilenet_v3_large", options=_NO_BACKBONE),
    _Net("lraspp_mobilenet_v3_large", options=_NO_BACKBONE),
    _Net(
        "ssdlite320_mobilenet_v3_large",
        (3, 128, 128),
        _NO_BACKBONE,
        wrap=_Detector,
        quantizes=False,
    ),
    _Net("retinanet_resnet50_fpn", (3, 128, 128), _NO_BACKBONE, wrap=_Detector, quantizes=False),
    _Net("raft_small", (3, 128, 128), images=2, wrap=_Flow, quantizes=False),
    _Net("r3d_18", (3, 4, 56, 56)),
)


def cases() -> Iterator[Case]:
    """All networks."""
    for net in _NETS:
        yield Case(net.name, net.build, net.inputs, ("torchvision",), net.quantizes)
