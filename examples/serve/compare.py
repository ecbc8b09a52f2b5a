"""Compares several ways to serve MiniLM under the same load: throughput, latency and memory.

    python examples/serve/compare.py

All servers run at the same time, but only one gets requests at a time, in rounds. Results are
medians over the rounds. Clients run on the same cores as the server.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import track

from benchmarks import _machine
from benchmarks._arguments import names, positive
from examples.serve import answers, clients, report, sentences, smaps
from examples.serve.latency import Latency

_SERVER = Path(__file__).resolve().with_name("server.py")
_WAYS = ("torch fp32", "cpuaccel fp32", "cpuaccel prepacked", "cpuaccel optimized")
_INT8 = ("torch int8", "cpuaccel int8")
_SHAPES = ("1x2", "2x1")


class Server:
    """A server in its own process; `way` is "torch" or "cpuaccel", and a form."""

    def __init__(self, way: str, shape: str) -> None:
        plugin, form = way.split(" ")
        workers, threads = shape.split("x")
        self.form = sentences.FORMS[form]
        self._process = subprocess.Popen(
            [
                # Hides warnings of torch.export about itself.
                *(sys.executable, "-W", "ignore::FutureWarning", str(_SERVER)),
                *("--form", form, "--port", "0"),
                *("--plugin", "on" if plugin == "cpuaccel" else "off"),
                *("--workers", workers, "--threads", threads),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ready: dict[str, Any] = {}

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def target(self) -> clients.Target:
        """Waits until the server is ready and returns its address."""
        if not self._ready:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if not line:
                raise SystemExit(f"compare: the server ended: {self._process.args}")
            self._ready = json.loads(line)
        return clients.Target.of(self._ready["url"])

    def memory(self) -> tuple[float, float]:
        """Mean private MiB of a worker, and anonymous MiB of parent and workers together."""
        workers = [smaps.of(each["pid"]) for each in self._ready["workers"]]
        parent = smaps.of(self._ready["parent"])
        alone = statistics.fmean(each.private for each in workers)
        return alone, parent.anonymous + sum(each.anonymous for each in workers)


@dataclass
class _Seen:
    rounds: list[report.Figures] = field(default_factory=list)
    least_cosine: float = 1.0
    errors: list[str] = field(default_factory=list)


def main() -> None:
    """Ends with an error if an answer is wrong or missing."""
    options = _parser().parse_args()
    load = clients.Load(options.clients, options.seconds, 0.5, not options.keep_alive)
    bodies = answers.bodies()
    answers.reference()
    seen: dict[tuple[str, str], _Seen] = {}
    console = Console(stderr=True)
    with ExitStack() as stack:
        servers = {}
        for way in options.ways:
            for shape in _SHAPES:
                server = servers[way, shape] = stack.enter_context(Server(way, shape))
                server.target()
                seen[way, shape] = _Seen()
        order = [key for _ in range(options.rounds) for key in servers]
        for key in track(order, "loading", console=console):
            _round(seen[key], servers[key], bodies, load)
        memory = {key: server.memory() for key, server in servers.items()}
    rows = [
        report.Row(
            f"{way}, {shape.replace('x', ' x ')}",
            _median(each.rounds),
            each.least_cosine,
            memory[way, shape],
        )
        for (way, shape), each in seen.items()
    ]
    facts = _machine.describe()
    out = _machine.console()
    out.print(f"{facts['cpu']}: {facts['isa']}; torch {facts['torch']}", highlight=False)
    connection = "a connection a client" if options.keep_alive else "a connection a request"
    title = (
        f"all-MiniLM-L6-v2, workers x threads; {options.clients} clients, {connection}, a sentence"
        f" a request; medians of {options.rounds} rounds of {options.seconds:g} s"
    )
    out.print(report.table(rows, title))
    _check(seen)


def _round(seen: _Seen, server: Server, bodies: Sequence[bytes], load: clients.Load) -> None:
    result = clients.run([server.target()], bodies, load)
    seen.rounds.append(report.figures(result))
    seen.least_cosine = min(seen.least_cosine, answers.least_cosine(result.answers))
    seen.errors += report.troubles(result)


def _median(rounds: Sequence[report.Figures]) -> report.Figures:
    answered = [each.latency for each in rounds if each.latency]
    if len(answered) < len(rounds):
        raise SystemExit("compare: a server answered no request in a round")
    return report.Figures(
        statistics.median(each.rate for each in rounds),
        Latency(
            sum(each.count for each in answered),
            *(
                statistics.median(getattr(each, name) for each in answered)
                for name in ("p50", "p90", "p99")
            ),
        ),
        rounds[-1].workers,
        sum(each.refused for each in rounds),
    )


def _check(seen: dict[tuple[str, str], _Seen]) -> None:
    wrong = [line for each in seen.values() for line in each.errors]
    for (way, shape), each in seen.items():
        least = sentences.FORMS[way.split(" ")[1]].least_cosine
        if each.least_cosine < least:
            wrong.append(
                f"{way}, {shape}: cosine {each.least_cosine:.6f}, expected {least} or more"
            )
    if wrong:
        raise SystemExit("compare: " + "\n".join(wrong))


def _ways(text: str) -> list[str]:
    found = list(names(text))
    for way in found:
        plugin, _, form = way.partition(" ")
        needs = sentences.FORMS[form].plugin if form in sentences.FORMS else None
        if plugin not in ("torch", "cpuaccel") or needs is None or (needs and plugin == "torch"):
            raise argparse.ArgumentTypeError(f"expected some of {_WAYS + _INT8}, got {way!r}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    every = ",".join(_WAYS + _INT8)
    parser.add_argument("--ways", type=_ways, default=list(_WAYS + _INT8), help=every)
    parser.add_argument("--clients", type=positive, default=4, help="clients (default: 4)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per round (default: 4)")
    parser.add_argument("--rounds", type=positive, default=3, help="rounds (default: 3)")
    parser.add_argument("--keep-alive", action="store_true", help="one connection per client")
    return parser


if __name__ == "__main__":
    main()
