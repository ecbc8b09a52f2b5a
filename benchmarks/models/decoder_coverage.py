"""Shows which families of transformers' decoders have plans, and compares their tokens.

A row is a family, a format of its weights and a way: `optimize` is `cpuaccel.optimize(model)`,
`compile` is `torch.compile(model, backend="cpuaccel")`, `eager` the model with cpuaccel on. The
models are small, with random weights. `tokens` is how many of 64 greedy tokens are those of the
model with cpuaccel off, up to the first that differs. `scores` is the largest difference of the
scores of a prompt, divided by the largest score.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_names, make_parser, positive
from benchmarks.models import _decoder_families, _decoders

WAYS = ("eager", "optimize", "compile")


@dataclass(frozen=True)
class Outcome:
    """What one way made of one model."""

    family: str
    format: str
    way: str
    plans: str
    """The captures that run, or why the model runs."""
    tokens: int
    """How many of the first greedy tokens are the model's."""
    scores: float
    """Largest difference of the scores of a prompt, over the largest score."""
    seconds: float
    """Of the first `generate`."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, runs all models, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if reason := _decoders.missing() or _plugin.missing():
        raise SystemExit(reason)
    found: list[Outcome] = []
    with torch.no_grad():
        for family, number_format in itertools.product(options.families, options.formats):
            found += _outcomes(family, number_format, options.ways, options.tokens)
            if options.json:
                rows = [asdict(each) for each in found]
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    _print(found, options.tokens)


def _outcomes(family: str, number_format: str, ways: list[str], tokens: int) -> list[Outcome]:
    try:
        model = _decoders.in_format(_decoder_families.build(family), number_format).requires_grad_(
            False
        )
        given = _decoder_families.prompt(model, 9)
        with _plugin.enabled(False):
            expected = _generated(model, given, tokens)
            scores = _scores(model, given)
    except Exception as error:  # the model itself has no such format
        reason = f"torch: {type(error).__name__}: {str(error).splitlines()[0][:60]}"
        return [Outcome(family, number_format, "eager", reason, 0, float("nan"), 0.0)]
    return [_outcome(family, number_format, way, model, given, expected, scores) for way in ways]


def _outcome(
    family: str,
    number_format: str,
    way: str,
    model: Any,
    given: dict[str, Any],
    expected: Tensor,
    scores: Tensor,
) -> Outcome:
    import cpuaccel

    tokens = expected.shape[1]
    cpuaccel.reset_stats()
    made = model
    if way == "optimize":
        made = cpuaccel.optimize(model, time_budget=0)
    elif way == "compile":
        torch._dynamo.reset()
        made = torch.compile(copy.deepcopy(model), backend="cpuaccel")
    begin = time.perf_counter()
    try:
        found = _generated(made, given, tokens)
        seconds = time.perf_counter() - begin
        difference = float((_scores(made, given) - scores).abs().max() / scores.abs().max())
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
        return Outcome(family, number_format, way, reason, 0, float("nan"), 0.0)
    same = (found == expected[:, : found.shape[1]])[0].long().cumprod(0).sum()
    plans = _plans(made) if way == "optimize" else ""
    return Outcome(family, number_format, way, plans, int(same), difference, seconds)


def _generated(model: Any, given: dict[str, Any], tokens: int) -> Tensor:
    """Return the greedy tokens of a model, without the prompt's."""
    found: Tensor = model.generate(
        **given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False
    )
    return found[:, -tokens:]


def _scores(model: Any, given: dict[str, Any]) -> Tensor:
    starts = {}
    if model.config.is_encoder_decoder:
        starts["decoder_input_ids"] = torch.full((1, 1), model.config.decoder_start_token_id)
    scores: Tensor = model(**given, **starts).logits
    return scores.float()


def _plans(model: Any) -> str:
    """Return what has plans, and the reasons of the calls that the model ran."""
    import cpuaccel
    from cpuaccel.compile.frontend import same_class

    plans = same_class.plans_of(model)
    running = [
        name
        for name, each in (plans.captures() if plans is not None else {}).items()
        if any(verdict.runs == "plan" for verdict in each.verdicts)
    ]
    fallbacks = cpuaccel.stats()["fallbacks"]
    reasons = [
        f"{name.removeprefix('optimize: ')} ({count})"
        for name, count in fallbacks.items()
        if name.startswith("optimize: ")
    ]
    return "; ".join([", ".join(running) or "none", *reasons])


def _print(found: list[Outcome], tokens: int) -> None:
    table = Table(title=f"decoders of transformers, {tokens} greedy tokens")
    for title in ("family", "format", "way", "plans", "tokens", "scores", "first s"):
        table.add_column(title)
    for each in found:
        table.add_row(
            *(each.family, each.format, each.way, each.plans, str(each.tokens)),
            *(f"{each.scores:.1e}", f"{each.seconds:.1f}"),
        )
    _machine.console().print(table)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--families", list(_decoder_families.FAMILIES), "family")
    add_names(parser, "--formats", _decoders.FORMATS, "format")
    add_names(parser, "--ways", WAYS, "way")
    parser.add_argument("--tokens", type=positive, default=64, help="tokens to generate (64)")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
