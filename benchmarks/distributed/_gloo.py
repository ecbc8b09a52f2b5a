"""Times gloo's collectives between two processes of this machine."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

WORLD = 2


def _all_gather(x: Tensor) -> None:
    dist.all_gather_single(x, x[: len(x) // WORLD].clone())


def _reduce_scatter(x: Tensor) -> None:
    dist.reduce_scatter_single(x[: len(x) // WORLD].clone(), x)


COLLECTIVES: dict[str, Callable[[Tensor], object]] = {
    "all_reduce": dist.all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
}


def seconds(sizes: list[int], rounds: int) -> dict[str, list[float]]:
    """Seconds of each collective for tensors of these bytes: the fastest round of rank 0.

    The two processes share their cores with whatever else runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = str(Path(folder) / "found")
        store = f"file://{Path(folder) / 'store'}"
        mp.spawn(_process, (store, found, sizes, rounds), nprocs=WORLD)
        times: dict[str, list[float]] = torch.load(found)
        return times


def _process(rank: int, store: str, found: str, sizes: list[int], rounds: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    times: dict[str, list[float]] = {name: [] for name in COLLECTIVES}
    for size in sizes:
        x = torch.ones(size // 4)
        samples: dict[str, list[float]] = {name: [] for name in COLLECTIVES}
        for i in range(rounds + 1):  # the first round opens connections
            for name, collective in COLLECTIVES.items():
                dist.barrier()
                start = time.perf_counter()
                collective(x)
                if i:
                    samples[name].append(time.perf_counter() - start)
        for name, each in samples.items():
            times[name].append(min(each))
    if rank == 0:
        torch.save(times, found)
    dist.destroy_process_group()
