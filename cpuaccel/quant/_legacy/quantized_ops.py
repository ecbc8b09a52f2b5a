"""torch's ops on quantized tensors, by name, with the parameters of their schemas."""

from __future__ import annotations

from cpuaccel.quant._torch_ao import Parameter, QuantizedOp, Schema

_RESULT = "output_scale output_zero_point"
_LAYER = f"qx packed_weight {_RESULT}"
_DYNAMIC = "qx packed_weight reduce_range=0"
_NORM = f"qx weight bias mean var eps {_RESULT}"
_BINARY = "qa qb scale zero_point"
_SCALAR = "qa b"

_PARAMETERS: dict[str, list[str]] = {
    **{f"conv{n}d{relu}": [_LAYER] for n in (1, 2, 3) for relu in ("", "_relu")},
    **{f"conv_transpose{n}d": [_LAYER] for n in (1, 2, 3)},
    **{f"conv{kind}{n}d_dynamic": [_DYNAMIC] for n in (1, 2, 3) for kind in ("", "_transpose")},
    "conv2d_add": [f"qx qaccum packed_weight {_RESULT}"],
    "conv2d_add_relu": [f"qx qaccum packed_weight {_RESULT}"],
    "linear": [_LAYER],
    "linear_relu": [_LAYER],
    "linear_tanh": [_LAYER],
    "linear_leaky_relu": [f"{_LAYER} negative_slope"],
    "linear_dynamic": [_DYNAMIC],
    "linear_relu_dynamic": [_DYNAMIC],
    "linear_dynamic_fp16": ["qx packed_weight"],
    "linear_relu_dynamic_fp16": ["qx packed_weight"],
    **{f"batch_norm{n}{relu}": [_NORM] for n in ("", "1d", "2d", "3d") for relu in ("", "_relu")},
    **{f"{op}{relu}": [_BINARY, _SCALAR] for op in ("add", "mul") for relu in ("", "_relu")},
    **{f"{op}_scalar{relu}": [_SCALAR] for op in ("add", "mul") for relu in ("", "_relu")},
    "matmul": [_BINARY],
    "cat": ["qx dim scale zero_point"],
    "cat_relu": ["qx dim scale zero_point"],
    "hardswish": [f"input {_RESULT}"],
    "sigmoid": [f"qx {_RESULT}"],
    "softmax": [f"qx dim {_RESULT}"],
    "celu": [f"self {_RESULT} alpha=1"],
    "elu": [f"self {_RESULT} alpha=1 scale=1 input_scale=1"],
    "leaky_relu": [f"qx negative_slope inplace {_RESULT}"],
    "prelu": [f"qx weight {_RESULT}"],
    "relu6": ["qx inplace=0"],
    "clamp": ["qx min=None max=None"],
    "layer_norm": [f"input normalized_shape weight bias eps {_RESULT}"],
    "group_norm": [f"input num_groups weight bias eps {_RESULT}"],
    "instance_norm": [f"input weight bias eps {_RESULT}"],
    "embedding_byte": ["weight indices pruned_weights=0"],
    "dropout": [f"self {_RESULT} p=0 training=0"],
}


def _schema(parameters: str) -> Schema:
    made = []
    for each in parameters.split():
        name, _, default = each.partition("=")
        made.append(Parameter(name, int(default) if default.isdecimal() else None))
    return Schema(tuple(made))


QUANTIZED_OPS = {
    name: QuantizedOp(f"quantized::{name}", [_schema(each) for each in overloads])
    for name, overloads in _PARAMETERS.items()
}
"""By the name in torch.ops.quantized."""

QUANTIZE = QuantizedOp("aten::quantize_per_tensor", [_schema("self scale zero_point dtype")])
