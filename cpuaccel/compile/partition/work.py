"""The work of a partition: rows of a product, and multiply-adds of layers or else elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpuaccel.compile.bridge.plan_text import Operation, Value


def work_of(operations: Sequence[Operation], values: dict[int, Value]) -> int:
    """Return the multiply-adds of the layers, or the elements of the largest result if none."""
    layers = sum(_multiply_adds(operation, values) for operation in operations)
    if layers:
        return layers
    return max(math.prod(values[op.outputs[0]].sizes) for op in operations)


def rows_of(operations: Sequence[Operation], values: dict[int, Value]) -> int:
    """Return the rows of a product's result, over all matrices of a batch; 0 without a product."""
    products = (values[op.outputs[0]].sizes for op in operations if op.kind == "MatMul")
    return max((math.prod(sizes[:-1]) for sizes in products), default=0)


def _multiply_adds(operation: Operation, values: dict[int, Value]) -> int:
    dst = values[operation.outputs[0]].sizes
    sizes = [values[number].sizes for number in operation.inputs]
    if operation.kind == "MatMul":
        return math.prod(dst) * sizes[0][-2 if operation.attributes.get("transpose_a") else -1]
    if operation.kind == "Convolution":
        return math.prod(dst) * math.prod(sizes[1][1:])
    if operation.kind == "ConvTranspose":
        return math.prod(sizes[0]) * math.prod(sizes[1][1:])
    return 0
