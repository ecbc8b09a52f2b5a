"""Ops with all of their arguments but the tensors kept in C++.

Handing packed weights from Python to an op takes torch some 15 us a call, in which it looks up
classes by name; a method of a C++ object gets what the object holds at once.
"""

from __future__ import annotations

from typing import Any

import torch

_ATTRIBUTES = {
    **dict.fromkeys(("packed", "packed_weight", "W_prepack"), "_packed_params"),
    **dict.fromkeys(("output_scale", "Y_scale_i"), "scale"),
    **dict.fromkeys(("output_zero_point", "Y_zero_point_i"), "zero_point"),
}
"""What a module calls an argument where an op has another name for it."""


def bind(op: str, module: Any) -> Any:
    """Return a function of a tensor, or of two, that calls `op`.

    The first argument of `op` is the one, `other` the second; the others are the attributes of
    `module` that have their names, as they are now.
    """
    name, _, overload = op.partition(".")
    arguments = [a.name for a in torch._C._get_schema(name, overload).arguments]
    second = arguments.index("other") if "other" in arguments else 0
    values = [
        None if place in (0, second) else getattr(module, _ATTRIBUTES.get(argument, argument))
        for place, argument in enumerate(arguments)
    ]
    call = torch.classes.cpuaccel.BoundCall(op, values, second)
    return call.call2 if second else call.call
