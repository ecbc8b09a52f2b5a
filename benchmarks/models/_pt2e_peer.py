"""Plain torch of another version as a column of the PT2E benchmark: a process of another Python.

The parent writes the name of a model, or a number of calls to time, as a line, and reads a line of
JSON. Both processes are idle while the other one measures. The process quantizes with torchao's
X86InductorQuantizer and compiles with Inductor, with frozen weights, which its int8 layers need.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Peer:
    """A process of `python`, whose torch runs PT2E models without cpuaccel."""

    def __init__(self, python: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-m", "benchmarks.models._pt2e_peer", str(threads)],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._python = python
        self.version: str = self._answer()["torch"]

    def load(self, name: str) -> None:
        """Quantizes and compiles a model."""
        self._ask(name)

    def seconds(self, calls: int) -> float:
        """Seconds of a call: CPU time of the process for one thread, else wall time."""
        seconds: float = self._ask(str(calls))["seconds"]
        return seconds / calls

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _ask(self, question: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
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
    threads = int(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    import torch
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer  # noqa: F401

    from benchmarks.models import _pt2e

    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    answer({"torch": torch.__version__.partition("+")[0]})
    run: Any = None
    for line in sys.stdin:
        question = line.strip()
        if not question.isdecimal():
            run = _pt2e.with_inductor(_pt2e.job(question))
            run()
            answer({})
            continue
        began = clock()
        for _ in range(int(question)):
            run()
        answer({"seconds": clock() - began})


if __name__ == "__main__":
    main()
