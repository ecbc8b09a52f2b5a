"""Times single int8 convolutions and linear layers on each provider, one row for each shape.

The order of providers in csrc/quant/provider_rows.cpp is derived from the summary by class,
channels and output size.
"""

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_batch,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    positive,
)
from benchmarks._report import Ratio, Row, not_measured, print_header, print_notes, show_ratio
from benchmarks._timing import Contender, side_by_side
from benchmarks.ops._qops import (
    PROVIDERS,
    Operation,
    Provider,
    convolution,
    linear,
)
from benchmarks.ops._summary import by_kind, by_shape, summarize, table_of
from benchmarks.shapes import conv_shapes, linear_shapes

_KINDS = ("stem", "dense", "pointwise", "grouped", "depthwise", "linear", "linear_dynamic")

Pair = tuple[Operation, Row]


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    providers, notes = _available(options.providers)
    operations = _operations(options)
    pairs: list[Pair] = []
    console = _machine.console()
    try:
        for operation in track(operations, "shapes", console=Console(stderr=True)):
            row, remarks = _measure(operation, providers, options)
            pairs.append((operation, row))
            notes += remarks
    except KeyboardInterrupt:
        notes.append(f"interrupted after {len(pairs)} of {len(operations)} shapes")
    ratio = _ratio(providers)
    facts = _machine.describe(batch=options.batch)
    _print(console, pairs, providers, ratio, facts, quiet=options.summary)
    print_notes(console, notes)
    if options.json:
        _write(options.json, pairs, ratio, facts, notes)


def _available(wanted: list[str]) -> tuple[list[Provider], list[str]]:
    """The providers named `wanted` that run here, and a note on each other one."""
    known = {provider.name: provider for provider in PROVIDERS}
    chosen = [known[name] for name in wanted]
    reasons = {provider.name: provider.missing() for provider in chosen}
    return [provider for provider in chosen if not reasons[provider.name]], not_measured(reasons)


def _operations(options: argparse.Namespace) -> list[Operation]:
    operations = [convolution(shape, options.batch) for shape in conv_shapes()]
    for shape in linear_shapes():
        operations += [linear(shape, dynamic=False), linear(shape, dynamic=True)]
    chosen = [operation for operation in operations if operation.kind in options.kinds]
    return chosen[:: options.every]


def _measure(
    operation: Operation, providers: list[Provider], options: argparse.Namespace
) -> tuple[Row, list[str]]:
    """Times `operation`; omits a provider that passes it on to another one."""
    contenders: dict[str, Contender] = {}
    notes: list[str] = []
    for provider in providers:
        try:
            with provider.packing:
                run = operation.pack()
            calls = _plugin.calls_of(run)
        except RuntimeError as error:
            notes.append(f"{operation.name}: {provider.name}: {str(error).splitlines()[0]}")
            continue
        if provider.ran(calls):
            contenders[provider.name] = Contender(run)
        else:
            ran = ", ".join(calls) or "torch's own kernel"
            notes.append(f"{operation.name}: {provider.name} is not measured: {ran} ran instead")
    samples = side_by_side(
        contenders, rounds=options.rounds, budget=options.budget, min_sample=1e-3
    )
    return Row(operation.name, samples), notes


def _ratio(providers: list[Provider]) -> Ratio:
    """The ratio of oneDNN to FBGEMM: cpuaccel's if both are present, otherwise torch's engines."""
    present = {provider.name for provider in providers}
    owner = "cpuaccel" if {"cpuaccel.onednn", "cpuaccel.fbgemm"} <= present else "intree"
    return Ratio(f"{owner}.onednn", f"{owner}.fbgemm")


def _print(
    console: Console,
    pairs: list[Pair],
    providers: list[Provider],
    ratio: Ratio,
    facts: dict[str, str],
    *,
    quiet: bool,
) -> None:
    print_header(console, "single int8 operations", facts)
    if not quiet:
        console.print("[bold]us per call (GMAC/s)[/bold]")
        console.print(_table(pairs, providers, ratio))
    console.print(f"[bold]speedup of {ratio.label}[/bold]")
    for key in (by_shape, by_kind):
        console.print(table_of(summarize(pairs, ratio, key)))


def _table(pairs: list[Pair], providers: list[Provider], ratio: Ratio) -> Table:
    table = Table()
    for heading in ("class", "shape"):
        table.add_column(heading, no_wrap=True)
    for provider in providers:
        table.add_column(provider.name.replace(".", "\n"), justify="right")
    table.add_column("onednn\nover fbgemm", justify="right")
    for operation, row in pairs:
        cells = []
        for provider in providers:
            sample = row.samples.get(provider.name)
            speed = operation.macs / sample.median * 1e-9 if sample else 0.0
            cells.append(f"{sample.median * 1e6:.1f} ({speed:.0f})" if sample else "-")
        table.add_row(operation.kind, operation.text, *cells, show_ratio(ratio.of(row.samples)))
    return table


def _write(
    path: Path, pairs: list[Pair], ratio: Ratio, facts: dict[str, str], notes: list[str]
) -> None:
    """Writes every time, and both summaries, to `path`."""
    shapes = [
        {
            "name": operation.name,
            "class": operation.kind,
            "shape": operation.text,
            "channels": operation.channels,
            "output": operation.area,
            "macs": operation.macs,
            "times": {name: sample.to_dict() for name, sample in row.samples.items()},
            "ratio": ratio.of(row.samples),
        }
        for operation, row in pairs
    ]
    document = {
        "machine": facts,
        "ratio": ratio.label,
        "classes": [group.to_dict() for group in summarize(pairs, ratio, by_kind)],
        "groups": [group.to_dict() for group in summarize(pairs, ratio, by_shape)],
        "shapes": shapes,
        "notes": notes,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--providers", [provider.name for provider in PROVIDERS], "provider")
    add_names(parser, "--kinds", _KINDS, "class")
    parser.add_argument(
        "--every", type=positive, default=1, help="measure every EVERY-th shape (default: 1)"
    )
    add_threads(parser)
    add_batch(parser, 1, "images")
    add_rounds(parser, rounds=9, budget=2.0, of="a shape")
    parser.add_argument("--summary", action="store_true", help="print only the summaries")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
