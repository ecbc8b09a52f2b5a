"""Runs one workload in this process and prints the seconds of each step and the peak memory."""

import json
import resource
import sys
import time

import torch

from benchmarks.memory._workloads import WORKLOADS


def main(name: str, threads: int, steps: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    step = WORKLOADS[name]()
    step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
