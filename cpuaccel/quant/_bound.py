"""Binds all arguments of an op except its tensors, in C++.

Passing packed weights from Python to an op costs torch about 15 us per call, because it looks up
classes by name. A method of a C++ object gets the bound arguments directly.
"""

from __future__ import annotations

from typing import Any

import torch

from cpuaccel._compat import get_schema

_ATTRIBUTES = {
    **dict.fromkeys(("packed", "packed_weight", "W_prepack"), "_packed_params"),
    **dict.fromkeys(("output_scale", "Y_scale_i"), "scale"),
    **dict.fromkeys(("output_zero_point", "Y_zero_point_i"), "zero_point"),
}
"""The module's attribute for an argument, if the op has another name for it."""


def bind(op: str, module: Any) -> Any:
    """Return a function of one or two tensors that calls `op`.

    The first tensor is the first argument of `op`, the second its argument `other`. The remaining
    arguments are the attributes of `module` of the same names, read now.
    """
    name, _, overload = op.partition(".")
    arguments = [a.name for a in get_schema(name, overload).arguments]
    second = arguments.index("other") if "other" in arguments else 0
    values = [
        None if place in (0, second) else getattr(module, _ATTRIBUTES.get(argument, argument))
        for place, argument in enumerate(arguments)
    ]
    call = torch.classes.cpuaccel.BoundCall(op, values, second)
    return call.call2 if second else call.call
