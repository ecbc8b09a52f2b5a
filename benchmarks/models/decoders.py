"""Times decoders of transformers: a token after a context, and prompts.

Columns `torch` and `inductor` have cpuaccel off: the model in eager mode, and its forward under
torch.compile with a static cache. `cpuaccel` is the model in eager mode with it on, `optimized`
what `cpuaccel.optimize(model)` returns. `model_attention` is the same with the masks and attention
functions of transformers, which run where plans do not know an attention. `llama_cpp` is llama.cpp
(fp32, bf16, f16; Q8_0 and Q4_0 for 8 and 4 bits, which round rows to 8 bits), `openvino` OpenVINO
(its own codes of 8 and 4 bits).

A row is a model, a format and a number of tokens in the cache; "prompt 512" is a prompt of 512
tokens. Weights are random. For a token, notes say which share of the read bandwidth `optimized`
has, counted in bytes of packed weights, keys and values. Bandwidth is measured in the same run.
With `--steps`, notes also say what the steps of the token's plan take, one by one. And they have
the seconds of the first calls of `optimized`, which make its plans.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_checked_names,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    check_known,
    make_parser,
    positive,
    positives,
)
from benchmarks._from_memory import read_bandwidth
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Sample, rounds_within
from benchmarks.models import _decoders, _llama_cpp, _openvino_decoder

COLUMNS = (
    *("torch", "inductor", "cpuaccel", "optimized", "model_attention"),
    *("llama_cpp", "openvino"),
)
_PEERS = {"llama_cpp": _llama_cpp, "openvino": _openvino_decoder}
_OFF = ("torch", "inductor", *_PEERS)
_SHOWN = tuple(each for each in COLUMNS if each not in ("inductor", "model_attention"))

Decode = Callable[[int, int], float]
"""Takes the number of tokens in the cache and of new tokens; returns seconds for each new token."""
Prompt = Callable[[int], float]
"""Takes the number of tokens of a prompt; returns seconds."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if reason := _decoders.missing():
        raise SystemExit(reason)
    reasons = {each: _reason(each) for each in options.columns}
    columns = [each for each in options.columns if not reasons[each]]
    report = Report(
        title="decoders, seconds of a token or of a prompt, median latency",
        facts=_machine.describe(),
        columns=columns,
        ratios=[Ratio("optimized", each) for each in columns if each != "optimized"],
        notes=not_measured({name: reason for name, reason in reasons.items() if reason}),
    )
    with torch.no_grad():
        for model, name in itertools.product(options.models, options.formats):
            _measure(model, name, columns, options, report)
    report.notes += [_PEERS[each].note() for each in columns if each in _PEERS]
    report.print(_machine.console())


def _reason(column: str) -> str:
    if column in _PEERS:
        return _PEERS[column].missing()
    return "" if column in _OFF else _plugin.missing()


def _measure(
    name: str, number_format: str, columns: list[str], options: argparse.Namespace, report: Report
) -> None:
    """Add the rows of one model in one format."""
    model = _decoders.build(name, options.layers)
    made: dict[str, Any] = {}
    if "llama_cpp" in columns and _llama_cpp.has(number_format):
        positions = max(*options.contexts, *options.prompts, 0, 0) + 2 * options.tokens
        made["llama_cpp"] = _llama_cpp.Model(name, model, number_format, positions)
    if "openvino" in columns:
        made["openvino"] = _openvino_decoder.Model(model, number_format)
    model = _decoders.in_format(model, number_format)
    made |= {each: TorchModel(model, each) for each in columns if each not in _PEERS}
    size = _decoders.weight_bytes(model, number_format)
    for context in options.contexts:
        steps = {column: _step(each, context, options.tokens) for column, each in made.items()}
        samples, bandwidth = _in_turns(steps, options)
        cache = _decoders.cache_bytes(_decoders.filled_cache(model, 1)) * context
        title = f"{name} {number_format} at {context}"
        report.rows.append(Row(title, samples, {"bytes": size + cache, "bandwidth": bandwidth}))
        if "optimized" in samples:
            rate = (size + cache) / samples["optimized"].median
            report.notes.append(
                f"{title}: {(size + cache) / 1e6:.0f} MB, {rate / 1e9:.1f} GB/s, "
                f"{100 * rate / bandwidth:.0f} % of {bandwidth / 1e9:.1f} GB/s"
            )
            if options.steps:
                of_kinds = made["optimized"].seconds_of_steps(context)
                token = samples["optimized"].median
                report.notes.append(f"{title}: {_of_steps(of_kinds, token)}")
        _write(report, options)
    for tokens in options.prompts:
        prompts = {column: _prompt(each, tokens) for column, each in made.items()}
        samples, _ = _in_turns(prompts, options)
        report.rows.append(Row(f"{name} {number_format} prompt {tokens}", samples))
        _write(report, options)
    if "optimized" in made:
        first = ", ".join(f"{what} {each:.1f} s" for what, each in made["optimized"].first.items())
        report.notes.append(f"{name} {number_format}: the first calls of optimized: {first}")


def _of_steps(seconds: dict[str, float], token: float) -> str:
    """Return what the steps of a plan take by kind, and of a whole token, as text."""
    steps = sum(seconds.values())
    largest = sorted(seconds.items(), key=lambda each: -each[1])[:4]
    kinds = ", ".join(f"{kind} {1e3 * each:.2f}" for kind, each in largest)
    return (
        f"the plan's steps take {1e3 * steps:.2f} ms ({kinds}), "
        f"the token {1e3 * token:.2f}: {token / steps:.2f} times as long"
    )


def _write(report: Report, options: argparse.Namespace) -> None:
    if options.json:
        report.write_json(options.json)


def _step(model: Any, context: int, tokens: int) -> Callable[[], float]:
    return lambda: model.decode(context, tokens)


def _prompt(model: Any, tokens: int) -> Callable[[], float]:
    return lambda: model.prompt(tokens)


def _in_turns(
    runs: dict[str, Callable[[], float]], options: argparse.Namespace
) -> tuple[dict[str, Sample], float]:
    """Return the samples of runs that take turns, and the read bandwidth in bytes a second.

    Each run returns its seconds. The first round only warms up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    bandwidths = []
    for run in runs.values():
        run()
    for _ in rounds_within(options.rounds, options.budget):
        measured = not _plugin.missing()
        bandwidths.append(read_bandwidth(5, 0.3) if measured else float("nan"))
        for name, run in runs.items():
            seconds[name].append(run())
    samples = {name: Sample(tuple(each)) for name, each in seconds.items()}
    return samples, statistics.median(bandwidths)


class TorchModel:
    """A model of transformers, as one of the columns runs it."""

    def __init__(self, model: Any, column: str) -> None:
        self._column, self._model = column, model
        self._caches: dict[int, Any] = {}
        self.first: dict[str, float] = {}
        """Seconds of the first prompt and of the first token."""
        self._call = model
        if column in ("optimized", "model_attention"):
            import cpuaccel

            # No time for the comparison with the model: the plan runs, whatever is faster.
            self._call = cpuaccel.optimize(model, time_budget=0)
        elif column == "inductor":
            self._call = torch.compile(model.forward)

    def decode(self, context: int, tokens: int) -> float:
        """Return the seconds of a token: the mean of `tokens` after `context` others."""
        with _plugin.enabled(self._column not in _OFF):
            cache = self._cache(context, tokens)
            token = torch.ones((1, 1), dtype=torch.int64)
            begin = time.perf_counter()
            self._call(token, past_key_values=cache)  # it may make room in the cache
            self._leave_attention()
            self.first.setdefault("token", time.perf_counter() - begin)
            begin = time.perf_counter()
            for _ in range(tokens):
                self._call(token, past_key_values=cache)
            return (time.perf_counter() - begin) / tokens

    def seconds_of_steps(self, context: int) -> dict[str, float]:
        """Return the seconds of the plan's steps for a token by kind."""
        from cpuaccel._explain.step_timing import plans_of

        token = torch.ones((1, 1), dtype=torch.int64)
        cache = self._cache(context, 0)
        plans = plans_of(lambda: self._call(token, past_key_values=cache))
        found: dict[str, float] = {}
        for step in (each for plan in plans for each in plan.steps):
            found[step.kinds] = found.get(step.kinds, 0.0) + 1e-6 * step.microseconds
        return found

    def prompt(self, tokens: int) -> float:
        """Return the seconds of a prompt: the scores of its last token, and a cache."""
        numbers = torch.randint(2, 100, (1, tokens), generator=torch.Generator().manual_seed(0))
        with _plugin.enabled(self._column not in _OFF):
            begin = time.perf_counter()
            self._call(numbers, use_cache=True, logits_to_keep=1)
            seconds = time.perf_counter() - begin
            self._leave_attention()
            self.first.setdefault("prompt", seconds)
            return seconds

    def _leave_attention(self) -> None:
        """Let transformers compute attention, once the first call has found all attentions."""
        if self._column != "model_attention":
            return
        from cpuaccel.compile.frontend.same_class import plans_of

        sites = plans_of(self._call)._decoder.sites
        for site in sites.found:
            vars(site)["kernel"] = None
        sites._outline = None

    def _cache(self, context: int, tokens: int) -> Any:
        if context not in self._caches:
            self._caches = {context: _decoders.filled_cache(self._model, context)}
        if self._column != "inductor":
            return copy.deepcopy(self._caches[context])
        from transformers import StaticCache

        static = StaticCache(config=self._model.config, max_cache_len=context + tokens + 1)
        for number, layer in enumerate(self._caches[context].layers):
            static.update(layer.keys, layer.values, number)
        return static


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    real = [each for each in _decoders.CONFIGS if each != "tiny"]
    add_checked_names(
        parser,
        "--models",
        lambda name: check_known([name], _decoders.CONFIGS, "model"),
        default=real,
        help=f"names from {','.join(_decoders.CONFIGS)} (default: all but tiny)",
    )
    add_names(parser, "--formats", _decoders.FORMATS, "format")
    add_names(parser, "--columns", COLUMNS, "column")
    parser.set_defaults(columns=list(_SHOWN))
    parser.add_argument("--layers", type=positive, help="layers of each model (default: its own)")
    for option, of, default in (
        ("--contexts", "tokens in the cache", [128]),
        ("--prompts", "tokens of a prompt", [512]),
    ):
        shown = ",".join(map(str, default))
        parser.add_argument(
            option, type=positives, default=default, metavar="N,N", help=f"{of} (default: {shown})"
        )
    parser.add_argument("--tokens", type=positive, default=8, help="new tokens of a round (8)")
    parser.add_argument("--steps", action="store_true", help="time the steps of plans too")
    add_rounds(parser, rounds=9, budget=30.0, of="a row")
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
