"""The input of a column of the model benchmark: a model, calibration batches and an input."""

import copy
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from benchmarks import _gpt
from benchmarks._quantize import calibrate, prepare_dynamic
from examples.minilm.bert import Embeddings

# Modules that torch.fx cannot trace.
_NON_TRACEABLE = (Embeddings, _gpt.Cache)


class Job:
    """A model to be timed: fp32 in eval mode, calibration batches, and the inputs to time.

    `x` is the first input; a model of several inputs gets `others` after it.
    """

    def __init__(
        self, model: nn.Module, calibration: list[Tensor], x: Tensor, *others: Tensor
    ) -> None:
        self.model = model
        self.calibration = calibration
        self.x = x
        self.inputs = (x, *others)

    @cached_property
    def calibrated(self) -> GraphModule:
        """The model with calibrated observers; int8 columns share it and so have equal integers."""
        return calibrate(self.model, self.calibration)

    @cached_property
    def dynamic(self) -> GraphModule:
        """The model prepared for int8 linear layers that quantize their inputs dynamically."""
        return prepare_dynamic(self.model, self.x, _NON_TRACEABLE)

    def cast(self, dtype: torch.dtype | None) -> "Job":
        """A copy with weights and floating-point inputs of type `dtype`; itself if None."""
        if dtype is None:
            return self
        inputs = [each.to(dtype) if each.is_floating_point() else each for each in self.inputs]
        return Job(copy.deepcopy(self.model).to(dtype), [], *inputs)
