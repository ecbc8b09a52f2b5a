"""What a column of the model benchmark is given."""

from functools import cached_property

from torch import Tensor, nn
from torch.fx import GraphModule

from benchmarks._quantize import calibrate


class Job:
    """A model to be timed: fp32 in eval mode, calibration batches, and the input to time."""

    def __init__(self, model: nn.Module, calibration: list[Tensor], x: Tensor) -> None:
        self.model = model
        self.calibration = calibration
        self.x = x

    @cached_property
    def calibrated(self) -> GraphModule:
        """The model with observers, shared by every int8 column so that all hold the same."""
        return calibrate(self.model, self.calibration)
