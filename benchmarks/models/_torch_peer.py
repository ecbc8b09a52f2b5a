"""Plain torch of another version as contenders: a process that another Python runs.

A module names them: its `peer_contenders(question)` returns what the process is to time. The parent
writes a line of JSON for each question and reads one as the answer. Both processes are idle while
the other one measures.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._timing import Contender, Sample, side_by_side

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""CPU time is that of all threads of the process."""

MIN_SAMPLE = 2e-3


class Peer:
    """A process of `python` that times the contenders of `module` without cpuaccel."""

    def __init__(
        self,
        python: str,
        module: str,
        names: Sequence[str],
        *,
        threads: int | None,
        clock: str,
        min_sample: float = MIN_SAMPLE,
    ) -> None:
        arguments = ["--threads", str(threads or 0), "--clock", clock]
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-m", __name__, module, *arguments, f"--min={min_sample}"],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._python = python
        self._version: str = self._answer()["torch"]
        self.columns = [self._column(name) for name in names]

    def load(self, question: dict[str, Any]) -> None:
        """Builds and compiles the models of a question, which is not empty."""
        self._ask(question)

    def round(self) -> dict[str, float]:
        """Seconds of a call by column."""
        return {self._column(name): seconds for name, seconds in self._ask({}).items()}

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _column(self, name: str) -> str:
        return f"{name} {self._version}"

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._python} ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def peers(pythons: Sequence[str], module: str, names: Sequence[str], **how: Any) -> Iterator[Any]:
    """A `Peer` for each Python; the processes end with the block."""
    started: list[Peer] = []
    try:
        for python in pythons:
            started.append(Peer(python, module, names, **how))
        yield started
    finally:
        for peer in started:
            peer.close()


def in_turns(
    contenders: Mapping[str, Contender],
    peers: Sequence[Peer],
    *,
    rounds: int,
    clock: str,
    min_sample: float = MIN_SAMPLE,
) -> dict[str, Sample]:
    """Times this process's contenders, and those of peers, in turns."""
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        times = _round(contenders, clock, min_sample)
        for peer in peers:
            times.update(peer.round())
        for name, value in times.items():
            seconds.setdefault(name, []).append(value)
    return {name: Sample(tuple(values)) for name, values in seconds.items()}


def _round(contenders: Mapping[str, Contender], clock: str, min_sample: float) -> dict[str, float]:
    samples = side_by_side(
        contenders, rounds=1, warmup=1, min_sample=min_sample, clock=CLOCKS[clock]
    )
    return {name: sample.median for name, sample in samples.items()}


def main() -> None:
    """Answers the questions of a parent until its pipe closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--clock", choices=list(CLOCKS), required=True)
    parser.add_argument("--min", type=float, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    import torch

    module: Any = importlib.import_module(options.module)
    if options.threads:
        torch.set_num_threads(options.threads)
    answer({"torch": torch.__version__.partition("+")[0]})
    contenders: dict[str, Contender] = {}
    with torch.no_grad():
        for line in sys.stdin:
            question = json.loads(line)
            if not question:
                answer(_round(contenders, options.clock, options.min))
                continue
            torch._dynamo.reset()
            contenders = module.peer_contenders(question)
            for contender in contenders.values():
                contender.run()
            answer({})


if __name__ == "__main__":
    main()
