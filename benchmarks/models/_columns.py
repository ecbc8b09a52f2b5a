"""The columns of the model benchmark: every way of running a model that is compared."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from torch import Tensor, nn
from torch.fx import GraphModule

from benchmarks import _plugin
from benchmarks._quantize import calibrate, convert
from benchmarks._report import Ratio, left_out
from benchmarks._timing import Contender, Runner


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


@dataclass(frozen=True)
class Column:
    """One way of running a model.

    `prepare` makes a job ready and gives the call to be timed; `plugin` says whether cpuaccel
    is on while it is prepared and run; `missing` is why it cannot run here, or "".
    """

    name: str
    prepare: Callable[[Job], Runner]
    plugin: bool = False
    missing: Callable[[], str] = str

    def contender(self, job: Job) -> Contender:
        """`job` made ready for the timer."""
        around = partial(_plugin.enabled, self.plugin)
        with around():
            return Contender(self.prepare(job), around)


def _fp32(job: Job) -> Runner:
    return partial(job.model, job.x)


def _int8(engine: str, job: Job, *, plugin: bool = False) -> Runner:
    return partial(convert(job.calibrated, engine, plugin=plugin), job.x)


# A peer is one more line here.
COLUMNS: tuple[Column, ...] = (
    Column("fp32", _fp32),
    Column("fbgemm", partial(_int8, "fbgemm")),
    Column("x86", partial(_int8, "x86")),
    Column("cpuaccel", partial(_int8, "x86", plugin=True), plugin=True, missing=_plugin.missing),
)

RATIOS: tuple[Ratio, ...] = (
    Ratio("cpuaccel", "fbgemm"),
    Ratio("cpuaccel", "x86"),
    Ratio("x86", "fbgemm"),
)


def choose(names: list[str]) -> tuple[list[Column], list[str]]:
    """The columns called `names` (all when empty) that can run here, and a note on each other."""
    known = {column.name: column for column in COLUMNS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown engine {unknown[0]!r}; known: {', '.join(known)}")
    wanted = [known[name] for name in names] if names else list(COLUMNS)
    reasons = {column.name: column.missing() for column in wanted}
    return [column for column in wanted if not reasons[column.name]], left_out(reasons)
