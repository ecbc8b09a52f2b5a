"""What the examples of this folder share: the process group, and the report at the end.

torchrun starts the processes. Without torchrun an example is one process of one.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

import cpuaccel

_TIMEOUT = timedelta(seconds=120)
_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@contextmanager
def group() -> Iterator[tuple[int, int]]:
    """Joins the processes over gloo; gives this process's rank and their number.

    Each process gets an equal share of the machine's cores as its number of threads, unless
    OMP_NUM_THREADS says otherwise (torchrun sets it to 1).
    """
    for name, value in _ALONE.items():
        os.environ.setdefault(name, value)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // here))
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def largest_difference(found: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """The largest absolute difference between two lists of tensors of the same shapes."""
    pairs = zip(found, expected, strict=True)
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


def report(name: str, difference: float, bound: float) -> None:
    """Prints the difference from one process, and what ran in each process since the start.

    Raises:
        SystemExit: the difference is larger than `bound` in some process.
    """
    counts = cpuaccel.stats()["calls"]
    ran = ", ".join(f"{kernel} {count}" for kernel, count in sorted(counts.items()))
    mine = (difference, f"{torch.get_num_threads()} threads, calls: {ran or 'none of cpuaccel'}")
    all_of_them: list[tuple[float, str]] = [mine] * dist.get_world_size()
    dist.all_gather_object(all_of_them, mine)
    worst = max(each for each, _ in all_of_them)
    if dist.get_rank() == 0:
        for rank, (_, line) in enumerate(all_of_them):
            print(f"{name}: process {rank}: {line}")
        print(f"{name}: difference from one process {worst:.1e}, bound {bound:.0e}", flush=True)
    if not worst <= bound:
        raise SystemExit(f"{name}: expected at most {bound:g} from one process, got {worst:g}")
