"""Compares what eager calls learn on a CPU that nobody measured with what tuning without a budget
finds there.

The models run in eager mode. First every choice of their ops is tuned: calls probe the other
kernels without a budget until all choices are made. Then the choices are forgotten, and the models
run in turn for --seconds while they learn within the usual budget. At last both sets of choices,
the suggestions of the tables, and torch alone are timed in interleaved rounds.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from benchmarks import _bert, _machine
from benchmarks._arguments import (
    add_json,
    add_rounds,
    add_threads,
    make_parser,
    names,
    positive,
    require_known,
)
from benchmarks._report import Report, Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.models import _float_models
from benchmarks.models._compiled import backend_missing

MODELS = ("bert-base", "resnet50")
DTYPES = ("float32", "bfloat16")
COLUMNS = ("torch", "suggested", "learned", "tuned")
_TOKENS = 128
_MOST_CALLS = 200
_ANY_SHARE, _USUAL_SHARE = 1e12, 0.01

Call = Callable[[], object]
Choices = dict[str, int]


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if missing := backend_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    calls = dict(_calls(options))
    with torch.inference_mode(), _as_cpu(options.cpu):
        report = _measure(calls, options)
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _measure(calls: dict[str, Call], options: argparse.Namespace) -> Report:
    report = Report("what eager calls learn", _machine.describe(), list(COLUMNS))
    report.notes.append(f"choices as on the CPU {options.cpu!r}")
    began = time.perf_counter()
    tuned = _tuned(calls)
    seconds = time.perf_counter() - began
    report.notes.append(f"tuned: {len(tuned)} choices in {seconds:.1f} s, without a budget")
    learned, note = _learned(calls, options.seconds)
    same = sum(tuned.get(key) == choice for key, choice in learned.items())
    report.notes += [note, f"{same} of {len(learned)} learned choices are those of tuning"]
    for name, call in calls.items():
        contenders = {
            "torch": Contender(call, _off),
            "suggested": Contender(call, lambda: _with({})),
            "learned": Contender(call, lambda: _with(learned)),
            "tuned": Contender(call, lambda: _with(tuned)),
        }
        samples = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
        report.rows.append(Row(name, samples))
        ratio = samples["tuned"].median / samples["learned"].median
        report.notes.append(f"{name}: learned choices have {ratio:.1%} of the speed of tuning")
    return report


def _tuned(calls: dict[str, Call]) -> Choices:
    """Run each call until all choices are made, and return them."""
    _forget(_ANY_SHARE)
    for name, call in calls.items():
        for _ in range(_MOST_CALLS):
            call()
            if not _learning()["open"]:
                break
        else:
            raise SystemExit(f"{name}: {_learning()['open']} choices are open after many calls")
    return _choices()


def _learned(calls: dict[str, Call], seconds: float) -> tuple[Choices, str]:
    """Run the calls in turn for some seconds, and return what they learned, and a note."""
    _forget(_USUAL_SHARE)
    began, cpu_began = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        for call in calls.values():
            call()
    stats, cpu = _learning(), time.process_time() - cpu_began
    return _choices(), (
        f"learned: {stats['chosen']} choices are made and {stats['open']} are open after"
        f" {seconds:.0f} s; {stats['probes']} probes took {stats['probe_seconds'] / cpu:.2%} of the"
        " CPU time"
    )


def _learning() -> dict[str, float]:
    import cpuaccel

    return dict(cpuaccel.stats()["learning"])


def _choices() -> Choices:
    from cpuaccel._native import load

    return {key: n for key, n in load().tuning_results().items() if key.startswith("learned ")}


def _forget(share: float) -> None:
    from cpuaccel._native import load

    load().clear_learned_choices()
    load().set_learning_share(share)


@contextmanager
def _with(choices: Choices) -> Iterator[None]:
    """Calls take `choices`, else the suggestions, and probe nothing."""
    from cpuaccel._native import load

    _forget(0.0)
    load().set_tuning_results({**load().tuning_results(), **choices})
    yield


@contextmanager
def _off() -> Iterator[None]:
    import cpuaccel

    with cpuaccel.enabled(False):
        yield


@contextmanager
def _as_cpu(names: str) -> Iterator[None]:
    from cpuaccel import config, matmul
    from cpuaccel._native import load

    config.set("cpu", names)
    matmul.install(load())
    yield
    config.set("cpu", "")
    matmul.install(load())
    _forget(_USUAL_SHARE)


def _calls(options: argparse.Namespace) -> Iterator[tuple[str, Call]]:
    for name in options.models:
        for dtype in options.dtypes:
            model = _float_models.build(name).to(getattr(torch, dtype))
            if name in _bert.CONFIGS:
                x = _bert.tokens(name, 1, _TOKENS)
            else:
                x = torch.randn(1, 3, 224, 224, dtype=getattr(torch, dtype))
            yield f"{name} {dtype}", lambda model=model, x=x: model(x)


def _dtypes(text: str) -> list[str]:
    found = names(text)
    require_known(found, DTYPES, "dtype")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _float_models.add_models(parser, MODELS)
    parser.add_argument(
        "--dtypes",
        type=_dtypes,
        metavar="A,B",
        default=["float32"],
        help=f"dtypes of the models, of {','.join(DTYPES)} (default: float32)",
    )
    parser.add_argument(
        "--cpu",
        metavar="VENDOR CORE",
        default="NobodysCpu",
        help="choose as on this CPU (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=positive, default=60, help="how long to learn (default: %(default)s)"
    )
    add_rounds(parser, 20, 60.0, "a model")
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
