"""Times training steps with cpuaccel disabled and enabled: forward, backward, SGD with momentum.

Each column trains its own model from the same weights, on the same random batch.
"""

import argparse
import copy
import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_batch,
    add_json,
    add_rounds,
    add_threads,
    make_parser,
)
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Around, Contender, side_by_side
from benchmarks.models import _float_models
from benchmarks.models._modes import WITHOUT_FASTMATH, Mode, add_mode, mode

_MODELS = ("bert-base", "resnet50")
# So small that thousands of steps towards a random target do not change the time.
_RATE = 1e-5


@dataclass(frozen=True)
class Column:
    """A column: cpuaccel disabled or enabled, and the context of the forward pass."""

    name: str
    plugin: bool
    within: Around
    missing: Callable[[], str] = str

    def around(self) -> AbstractContextManager[None]:
        """The context that a step runs in."""
        return _plugin.enabled(self.plugin)


class Training:
    """A model in training mode, its optimizer, its input and its target."""

    def __init__(self, model: nn.Module, x: Tensor, within: Around) -> None:
        self.model = copy.deepcopy(model).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=_RATE, momentum=0.9)
        self.x = x
        self.within = within
        with torch.no_grad():
            generator = torch.Generator().manual_seed(1)
            self.target = torch.randn(model(x).shape, generator=generator)

    def step(self) -> Tensor:
        """Runs one step and returns the loss before it."""
        self.optimizer.zero_grad()
        with self.within():
            result = self.model(self.x)
        loss = nn.functional.mse_loss(result.float(), self.target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    columns = _columns(mode(options.mode))
    reasons = {column.name: column.missing() for column in columns}
    columns = [column for column in columns if not reasons[column.name]]
    facts = _machine.describe(batch=options.batch)
    report = Report(
        title=f"training step in {options.mode}, median time",
        facts={**facts, "tokens per text": str(options.sequence)},
        columns=[column.name for column in columns],
        ratios=[Ratio("cpuaccel", "torch")],
        notes=not_measured(reasons),
    )
    for name in track(options.models, "models", console=Console(stderr=True)):
        report.rows.append(_measure(name, columns, options))
        gc.collect()
        if options.json:
            report.write_json(options.json)
    report.print(_machine.console())


def _columns(chosen: Mode) -> list[Column]:
    return [
        Column("torch", plugin=False, within=chosen.torch),
        Column("cpuaccel", plugin=True, within=chosen.plugin, missing=chosen.plugin_missing),
    ]


def _measure(name: str, columns: list[Column], options: argparse.Namespace) -> Row:
    """A row of times; its extra entries are each first loss and the kernels that cpuaccel ran."""
    model = _float_models.build(name)
    x = _float_models.inputs(name, options.batch, options.sequence)
    contenders: dict[str, Contender] = {}
    losses: dict[str, float] = {}
    calls: dict[str, dict[str, int]] = {}
    for column in columns:
        with column.around():
            training = Training(model, x, column.within)
            losses[column.name] = float(training.step())
            if column.plugin:
                calls[column.name] = _plugin.calls_of(training.step)
        contenders[column.name] = Contender(training.step, column.around)
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    return Row(name, samples, {"loss": losses, "calls": calls})


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _float_models.add_models(parser, _MODELS)
    add_mode(parser, WITHOUT_FASTMATH)
    add_threads(parser)
    add_batch(parser, 8, "images or texts")
    _float_models.add_sequence(parser)
    add_rounds(parser, rounds=9, budget=60.0, of="a model")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
