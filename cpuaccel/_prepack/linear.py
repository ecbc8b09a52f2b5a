"""nn.Linear with a packed weight."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from cpuaccel._prepack.conversion import make_plain, packs, plain_call_reason, weights_of
from cpuaccel._prepack.matrix import Matrix
from cpuaccel._prepack.module import PackedModule
from cpuaccel._prepack.weight import Form


class _Linear(PackedModule):
    @classmethod
    def forms_to_pack(cls, module: Any) -> dict[str, Form] | str:
        weight = dict.get(module._parameters, "weight")
        return {"weight": Matrix((weight.shape[0],))} if weight is not None else "it has no weight"

    def forward(self: Any, input: Tensor) -> Tensor:
        return run_linear(self, input)


def run_linear(module: Any, input: Tensor) -> Tensor:
    """Run a linear layer on `input`, without its hooks, whether it is packed or not."""
    weights = weights_of(module)
    if weights:
        weight = weights["weight"]
        reason = plain_call_reason(module, (weight,), (input,))
        if not reason:
            result: Tensor = weight.linear(input, module.bias)
            return result
        make_plain(module, reason)
    return F.linear(input, module.weight, module.bias)


@packs(nn.Linear)
class PackedLinear(_Linear, nn.Linear):
    """nn.Linear whose weight is packed."""


@packs(NonDynamicallyQuantizableLinear)
class PackedOutProjection(_Linear, NonDynamicallyQuantizableLinear):
    """The output projection of nn.MultiheadAttention, with its weight packed."""
