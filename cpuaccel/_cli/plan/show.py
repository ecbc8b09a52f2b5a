"""Prints the contents of a file of `cpuaccel.save` or `aot_compile`: its call and its plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from cpuaccel import _files, _native
from cpuaccel._cli.plan import graphviz
from cpuaccel._cli.plan.drawing import drawing_of
from cpuaccel._cli.plan.region import Region, tensor_text
from cpuaccel._cli.plan.timing import Measured, measure
from cpuaccel._cli.rich_table import table
from cpuaccel._explain.plan_steps import HEADER
from cpuaccel.compile.bridge.op_json import GETITEM
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.common.report import Partition, Report
from cpuaccel.compile.common.torch_names import dtype_of
from cpuaccel.compile.package import load
from cpuaccel.compile.package.outline import INPUT

_MADE_BY = {load.PROGRAM: "cpuaccel.save", load.PACKAGE: "cpuaccel.aot_compile"}
_OTHERWISE = {load.PROGRAM: "torch", load.PACKAGE: "inductor"}
"""What runs the ops outside of regions."""


def show(console: Console, file: Path, run: bool, svg: Path | None) -> None:
    """Print the call of `file` and its plan steps, with times if `run`. Draw them into `svg`.

    Raises: as `run_plan` in command.py does.
    """
    if svg is not None:
        graphviz.check()
    measured = None
    if run:
        loaded = load.load(file)
        facts, measured = loaded.facts, _measured(loaded, file)
    else:
        facts = load.read_facts(file)
    if "outline" not in facts:
        raise ValueError(f"{file}: has no outline of its graph: save it again with this version")
    heading = list(_heading(file, facts))
    for line in heading:
        console.print(Text(line))
    console.print()
    if measured is None:
        _print_report(console, facts)
    else:
        _print_times(console, facts, measured)
        heading.append(_call_text(measured))
    if svg is not None:
        drawing = drawing_of(facts["outline"], measured)
        _files.write_atomically(svg, graphviz.svg_of(drawing, heading))
        console.print(Text(f"Drawn in {svg}"))


def _measured(loaded: load.Loaded, file: Path) -> Measured:
    try:
        return measure(loaded)
    except RuntimeError as error:
        raise RuntimeError(f"{file}: {error}; --no-run prints what the file contains") from error


def _heading(file: Path, facts: dict[str, Any]) -> Iterator[str]:
    cpu = facts["cpu"]
    here = _native.load().isa()
    yield f"{file.name}: a file of {_MADE_BY[facts['kind']]}"
    yield f"call: {Call.from_facts(facts['call'])}"
    yield (
        f"made by cpuaccel {facts['cpuaccel']} with torch {facts['torch']}"
        f" on {cpu['machine']}, {cpu['vendor']}, {cpu['isa']}"
        + ("" if cpu["isa"] == here else f"; this process uses {here}")
    )


def _print_report(console: Console, facts: dict[str, Any]) -> None:
    report = Report.from_facts(facts["report"])
    unmatched = list(report.regions)
    for node in facts["outline"]["nodes"]:
        if "program" not in node:
            continue
        region = Region(node["program"])
        reasons = _reasons(unmatched, [step.kinds for step in region.steps])
        steps = zip(region.steps, reasons, strict=True)
        rows = [(step.kinds, step.sizes, step.dtype, reason) for step, reason in steps]
        console.print(Text(f"region {region.name}"))
        console.print(table(("step", "sizes", "type", "reason"), rows))
        console.print()
    rest = [("+".join(part.kinds), part.dtype, part.reason) for each in unmatched for part in each]
    if rest:
        console.print(table(("step", "type", "reason"), rest))
        console.print()
    fallbacks = [(each.op, each.name, each.reason) for each in report.left]
    if fallbacks:
        console.print(f"Run by {_OTHERWISE[facts['kind']]}:")
        console.print(table(("op", "name", "reason"), fallbacks))


def _reasons(regions: list[tuple[Partition, ...]], kinds: list[str]) -> list[str]:
    """Remove the first of `regions` whose partitions are `kinds` and return their reasons."""
    for region in regions:
        if ["+".join(part.kinds) for part in region] == kinds:
            regions.remove(region)
            return [part.reason for part in region]
    return [""] * len(kinds)


def _print_times(console: Console, facts: dict[str, Any], measured: Measured) -> None:
    for plan in measured.plans:
        console.print(Text(plan.summary()))
        console.print(table(HEADER, [step.cells() for step in plan.steps]))
        console.print()
    ops = list(_op_lines(facts, measured))
    if ops:
        console.print("torch's ops:")
        console.print(table(("op", "name", "result", "us", "of time"), ops))
        console.print()
    console.print(_call_text(measured))


def _op_lines(facts: dict[str, Any], measured: Measured) -> Iterator[tuple[str, ...]]:
    nodes = [node for node in facts["outline"]["nodes"] if node["op"] != INPUT]
    for node, taken in zip(nodes, measured.ops, strict=False):  # empty if ops were not timed
        if node["op"] != GETITEM and "program" not in node:
            kinds = [tensor_text(dtype_of(kind[0]), kind[1]) for kind in node["results"] if kind]
            share = taken / measured.microseconds
            yield node["op"], node["name"], ", ".join(kinds), f"{taken:.1f}", f"{share:.1%}"


def _call_text(measured: Measured) -> str:
    inside = sum(plan.microseconds for plan in measured.plans)
    share = inside / measured.microseconds
    threads = torch.get_num_threads()
    return (
        f"a call: {measured.microseconds:.1f} us on {threads} thread{'s' * (threads > 1)},"
        f" {share:.1%} of it in plans"
    )
