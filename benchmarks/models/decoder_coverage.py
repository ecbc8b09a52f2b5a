"""Shows which families of transformers' decoders have plans, and compares their results.

A row is a family, a column a format of its weights. The models are small, with random weights. Each
runs in three ways: `eager` is the model with cpuaccel on, `optimize` is `cpuaccel.optimize(model)`,
`compile` is `torch.compile(model, backend="cpuaccel")`. A cell of fp32 is how many of 64 greedy
tokens are those of the model with cpuaccel off, up to the first that differs, in each way.

In other formats, last bits decide between tokens of random models. So each way decodes the tokens
of the model with cpuaccel off, and all scores of all steps are compared. A cell is the largest
error of the three ways, as a share of the bound of `cpuaccel.optimize`
(cpuaccel/compile/validate/bounds.py): up to 1 is within it. The bound is one of the distance from
the model, or twice the model's own distance from a more exact reference (`_exact_decoder.py`).

The file of --results has for each case the tokens, the scores, the captures, and why the model ran.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_names, add_results, make_parser, positive
from benchmarks._results import ResultsFile
from benchmarks.models import _decoder_families, _decoders, _exact_decoder

WAYS = ("eager", "optimize", "compile")
PROMPT = 20
"""Tokens of the prompts: more than the windows of the models with windows."""

_ARITHMETIC = {"fp32": "fp32", "bf16": "bf16", "f16": "bf16", "a8w8": "int8", "a8w4": "int8"}
"""What the bounds are for; that of float rows with codes for weights is fp32's."""
_RESULTS = Path("build/decoder_coverage.jsonl")


@dataclass(frozen=True)
class Case:
    """One model."""

    family: str
    format: str
    tokens: int

    def __str__(self) -> str:
        return f"{self.family}, {self.format}"


@dataclass(frozen=True)
class Outcome:
    """What one way made of one model."""

    plans: str
    """What has captures, or "none"."""
    reasons: dict[str, int]
    """Why the model ran, and in how many calls."""
    tokens: int
    """How many of the first greedy tokens are the model's."""
    scores: float
    """Largest difference of the scores of all steps, over the largest score."""
    error: float
    allowed: float
    """Its bound."""
    against: str
    """The reference of the error."""
    seconds: float
    """Of the first `generate`."""

    @property
    def share(self) -> float:
        """The error as a share of its bound."""
        return self.error / self.allowed if self.allowed else float("inf")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, runs all models, and prints and writes the results."""
    options = _parser().parse_args(arguments)
    if reason := _decoders.missing() or _plugin.missing():
        raise SystemExit(reason)
    pairs = itertools.product(options.families, options.formats)
    wanted = [Case(*pair, options.tokens) for pair in pairs]
    try:
        results = ResultsFile(options.results, Case, resume=options.resume)
        results.machine()
    except ValueError as error:
        raise SystemExit(str(error)) from None
    missing = [case for case in wanted if case not in results]
    log = Console(stderr=True)
    for number, case in enumerate(missing, start=1):
        begin = time.perf_counter()
        result = _result(case, options.ways)
        facts = {"machine": _machine.describe()}
        results.add(case, {"case": asdict(case), **facts, **result})
        seconds = time.perf_counter() - begin
        line = f"{number} of {len(missing)}: {case}: {_cell(case, result)} ({seconds:.0f} s)"
        log.print(line, highlight=False)
    _show(results.of(wanted), options)


def _result(case: Case, ways: Iterable[str]) -> dict[str, Any]:
    """Return the outcomes of a case by way, or why the model itself has no such format."""
    try:
        with torch.no_grad():
            compared = _Compared(case)
    except Exception as error:
        return {"torch": _first_line(error)}
    found: dict[str, Any] = {}
    with torch.no_grad():
        for way in ways:
            try:
                found[way] = asdict(compared.outcome(way))
            except Exception as error:
                found[way] = {"raises": _first_line(error)}
    return {"ways": found}


class _Compared:
    """A model, and what it computes with cpuaccel off."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._references: dict[float, Tensor] = {}
        built = _decoder_families.build(case.family)
        self.model = _decoders.in_format(built, case.format).requires_grad_(False)
        self.given = _decoder_families.prompt(self.model, PROMPT)
        with _plugin.enabled(False):
            self.tokens = self._generated(self.model)
            self.scores = self._forced_scores(self.model)
        if not bool(self.scores.isfinite().all()):
            raise ValueError("the model's scores are not finite")

    def outcome(self, way: str) -> Outcome:
        """Return what one way makes of the model."""
        import cpuaccel
        from cpuaccel.compile.validate.comparison import compare

        cpuaccel.reset_stats()
        made, optimized = self._made(way)
        begin = time.perf_counter()
        tokens = self._generated(made)
        seconds = time.perf_counter() - begin
        scores = self._forced_scores(made)
        same = (tokens == self.tokens[:, : tokens.shape[1]])[0].long().cumprod(0).sum()
        arithmetic = _ARITHMETIC.get(self.case.format, "fp32")
        difference = compare({"scores": scores}, {"scores": self.scores}, arithmetic, self._exact)
        if difference.problem:
            raise ValueError(difference.problem)
        return Outcome(
            _plans(optimized),
            _reasons(),
            int(same),
            float((scores - self.scores).abs().max() / self.scores.abs().max()),
            difference.error,
            difference.allowed,
            difference.against,
            seconds,
        )

    def _made(self, way: str) -> tuple[Any, Any]:
        """Return what a way makes of the model, and the part of it that has captures."""
        import cpuaccel
        from cpuaccel.compile.frontend import compiled_generation

        if way == "eager":
            return self.model, None
        if way == "optimize":
            optimized = cpuaccel.optimize(self.model, time_budget=0, sizes_budget=0)
            return optimized, optimized
        torch._dynamo.reset()
        # The plan is to run, also where it is slower; and there is one length of prompts.
        compiled_generation.TIME_BUDGET = compiled_generation.SIZES_BUDGET = 0.0
        compiled: Any = torch.compile(copy.deepcopy(self.model), backend="cpuaccel")
        return compiled, getattr(compiled.forward, "fast", None)

    def _generated(self, model: Any) -> Tensor:
        """Return the greedy tokens of a model, without the prompt's."""
        count = self.case.tokens
        found: Tensor = model.generate(
            **self.given, max_new_tokens=count, min_new_tokens=count, do_sample=False
        )
        return found[:, -count:]

    def _forced_scores(self, model: Any) -> Tensor:
        """Return the scores of each step, float32, while a model decodes the known tokens."""
        forced = _Forced(self.tokens)
        with torch.no_grad():
            given = {
                name: each.to(model.dtype) if each.is_floating_point() else each
                for name, each in self.given.items()
            }
            count = self.case.tokens
            model.generate(
                **given,
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                logits_processor=[forced],
            )
        return torch.cat(forced.scores)

    def _exact(self, error: float) -> dict[str, Any]:
        if error not in self._references:
            with _plugin.enabled(False):
                wide = _exact_decoder.exact(self.model, self.case.format, error)
                self._references[error] = self._forced_scores(wide)
        return {"scores": self._references[error]}


class _Forced:
    """A logits processor that keeps the scores and lets given tokens win."""

    def __init__(self, tokens: Tensor) -> None:
        self._tokens = tokens
        self.scores: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        wide = scores.dtype == torch.float64
        self.scores.append(scores.clone() if wide else scores.float())
        found = torch.full_like(scores, float("-inf"))
        return found.scatter(1, self._tokens[:, len(self.scores) - 1, None], 0.0)


def _plans(model: Any) -> str:
    """Return what has plans."""
    from cpuaccel.compile.frontend import same_class

    plans = same_class.plans_of(model)
    running = [
        name
        for name, each in (plans.captures() if plans is not None else {}).items()
        if any(verdict.runs == "plan" for verdict in each.verdicts)
    ]
    return ", ".join(running) or "none"


def _reasons() -> dict[str, int]:
    """Return why the model ran instead of a capture."""
    import cpuaccel

    prefix = "optimize: "
    counts = cpuaccel.stats()["fallbacks"]
    return {
        name.removeprefix(prefix): count
        for name, count in counts.items()
        if name.startswith(prefix)
    }


def _cell(case: Case, result: dict[str, Any]) -> str:
    """Return the results of a case in a few characters."""
    if "torch" in result:
        return "torch raises"
    ways = result["ways"].values()
    if any("raises" in each for each in ways):
        return "raises"
    outcomes = [Outcome(**each) for each in ways]
    if case.format == "fp32":
        return " ".join(str(each.tokens) for each in outcomes)
    worst = max(each.share for each in outcomes)
    return f"{worst:.2f}" if worst <= 1 else f"{worst:.2f} (beyond)"


def _notes(found: dict[Case, dict[str, Any]]) -> list[str]:
    """Return what the cells do not say: errors, missing captures, calls that the model ran."""
    notes = []
    for case, result in found.items():
        if "torch" in result:
            notes.append(f"{case}: torch: {result['torch']}")
        for way, each in result.get("ways", {}).items():
            if "raises" in each:
                notes.append(f"{case}, {way}: {each['raises']}")
            elif way != "eager":
                notes += [
                    f"{case}, {way}: {count} calls by the model: {reason}"
                    for reason, count in each["reasons"].items()
                ]
    return notes


def _captured(results: list[dict[str, Any]]) -> str:
    """Return what has captures; if it differs between formats or ways, what all have."""
    plans = [
        set(each.get("plans", "none").split(", "))
        for result in results
        for way, each in result.get("ways", {}).items()
        if way != "eager"
    ]
    common = set.intersection(*plans) if plans else {"none"}
    first = next((each for each in plans), set())
    return ", ".join(sorted(common or first & {"none"})) or "none"


def _show(found: dict[Case, dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table, and write it as Markdown."""
    titles = ["family", "captured", *options.formats]
    rows = []
    for family in options.families:
        of_family = {case: each for case, each in found.items() if case.family == family}
        cells = {case.format: _cell(case, each) for case, each in of_family.items()}
        captured = _captured(list(of_family.values()))
        rows.append([family, captured, *(cells.get(each, "") for each in options.formats)])
    table = Table(title=f"decoders of transformers, {options.tokens} greedy tokens")
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(*row)
    console = _machine.console()
    console.print(table)
    for note in _notes(found):
        console.print(note, highlight=False, markup=False)
    if options.markdown:
        lines = [titles, ["---"] * len(titles), *rows]
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        options.markdown.write_text(text)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:120]}"


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--families", list(_decoder_families.FAMILIES), "family")
    add_names(parser, "--formats", _decoders.FORMATS, "format")
    add_names(parser, "--ways", WAYS, "way")
    parser.add_argument("--tokens", type=positive, default=64, help="tokens to generate (64)")
    add_results(parser, _RESULTS)
    return parser


if __name__ == "__main__":
    main()
