"""Plain torch of another version as a contender: a process that another Python runs.

The parent writes a line of JSON for each question and reads one as the answer. Both processes are
idle while the other one measures.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

COLUMNS = ("torchao", "inductor")
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


class Peer:
    """A process of `python` that times COLUMNS without cpuaccel."""

    def __init__(self, python: str, kind: str, threads: int | None, clock: str) -> None:
        arguments = ["--kind", kind, "--clock", clock, "--threads", str(threads or 0)]
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.models._torchao_peer", *arguments],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._python = python
        self.version: str = self._answer()["torch"]

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [f"{column} {self.version}" for column in COLUMNS]

    def load(self, case: Any) -> None:
        """Builds and compiles the models of a case."""
        self._ask(asdict(case))

    def round(self) -> dict[str, float]:
        """Seconds of a call by column."""
        return {f"{name} {self.version}": value for name, value in self._ask({}).items()}

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

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


def main() -> None:
    """Answers the questions of a parent until its pipe closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--clock", choices=list(CLOCKS), required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    import torch

    from benchmarks._timing import Contender, side_by_side
    from benchmarks.models._torchao_cases import Case, quantized

    if options.threads:
        torch.set_num_threads(options.threads)
    answer({"torch": torch.__version__.partition("+")[0]})
    contenders: dict[str, Contender] = {}
    with torch.no_grad():
        for line in sys.stdin:
            question = json.loads(line)
            if question:
                case = Case(**question)
                model, x = quantized(case.build(), options.kind), case.input()
                torch._dynamo.reset()
                runs = (model, torch.compile(copy.deepcopy(model)))
                contenders = {
                    name: Contender(lambda run=run, x=x: run(x))
                    for name, run in zip(COLUMNS, runs, strict=True)
                }
                for contender in contenders.values():
                    contender.run()
                answer({})
                continue
            samples = side_by_side(contenders, rounds=1, warmup=1, clock=CLOCKS[options.clock])
            answer({name: sample.median for name, sample in samples.items()})


if __name__ == "__main__":
    main()
