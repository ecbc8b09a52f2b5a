"""The caching CPU allocator: torch's tensors come from it, and nothing else changes."""

from __future__ import annotations

import gc
import multiprocessing
import random
import subprocess
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from _process import run_python
from quant._engine import needs_plugin
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import cpuaccel
from cpuaccel import memory

pytestmark = needs_plugin

MIB = 2**20


@pytest.fixture(autouse=True)
def _on_and_empty() -> Iterator[None]:
    gc.collect()
    with cpuaccel.enabled():
        if not memory.is_enabled():
            pytest.skip(f"the allocator is off: {memory.why_off()}")
        memory.empty_cache()
        memory.reset_peak_stats()
        yield


def _bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8)


def _dirty(count: int) -> None:
    """Leaves a cached block of that size with nonzero contents."""
    _bytes(count).fill_(0xAB)


def test_freed_memory_is_used_again() -> None:
    before = memory.stats()
    first = _bytes(16 * MIB)
    address = first.data_ptr()
    assert memory.stats()["allocated"] - before["allocated"] == 16 * MIB
    del first
    second = _bytes(16 * MIB)
    after = memory.stats()
    assert second.data_ptr() == address
    assert (after["hits"] - before["hits"], after["misses"] - before["misses"]) == (1, 1)
    assert after["peak_allocated"] == after["allocated"]


def test_small_tensors_pass_through() -> None:
    before = memory.stats()
    kept = [torch.empty(1000) for _ in range(100)]
    assert memory.stats() == before
    assert len(kept) == 100


def test_empty_cache_gives_it_back() -> None:
    _dirty(32 * MIB)
    assert memory.empty_cache() >= 32 * MIB
    assert memory.stats()["reserved"] == memory.stats()["allocated"]


def test_tensors_outlive_the_switch() -> None:
    ours = torch.arange(MIB, dtype=torch.float32)
    with cpuaccel.enabled(False):
        assert not memory.is_enabled()
        theirs = torch.arange(MIB, dtype=torch.float32)
        assert torch.equal(ours, theirs)
        allocated = memory.stats()["allocated"]
        del ours
        assert memory.stats()["allocated"] == allocated - 4 * MIB
    assert torch.equal(theirs, torch.arange(MIB, dtype=torch.float32))
    del theirs


def test_zeros_are_zero_in_used_memory() -> None:
    makers: list[Callable[[], Tensor]] = [
        lambda: torch.zeros(MIB),
        lambda: torch.zeros(MIB, dtype=torch.int32),
        lambda: torch.zeros_like(torch.empty(MIB)),
        lambda: torch.empty(0).new_zeros(MIB),
        lambda: torch.sparse_coo_tensor(size=(1024, 1024)).to_dense(),
        lambda: torch.nn.functional.pad(torch.empty(0), (0, MIB)),
    ]
    for make in makers:
        _dirty(4 * MIB)
        assert not make().any()


def test_fill_of_uninitialized_memory() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        _dirty(4 * MIB)
        assert torch.empty(MIB).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_resized_and_viewed_storages() -> None:
    x = torch.arange(MIB, dtype=torch.float32)
    x.resize_(2 * MIB)
    assert torch.equal(x[:MIB], torch.arange(MIB, dtype=torch.float32))
    view = x[MIB // 2 :]
    del x
    assert view[0] == MIB // 2
    storage = view.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_memory_of_others_is_untouched() -> None:
    before = memory.stats()["allocated"]
    array = np.zeros(MIB, dtype=np.float32)
    x = torch.from_numpy(array)
    x.add_(1)
    assert array.all()
    assert memory.stats()["allocated"] == before
    shared = torch.zeros(MIB).share_memory_()
    assert shared.is_shared()
    assert torch.frombuffer(bytearray(4 * MIB), dtype=torch.uint8).sum() == 0


def test_numpy_keeps_the_memory_alive() -> None:
    array = torch.full((MIB,), 3.0).numpy()
    gc.collect()
    other = torch.zeros(MIB)
    assert (array == 3).all()
    assert not other.any()


class Random(Dataset[Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Tensor:
        large = torch.full((MIB,), float(index))
        return large[:5].clone() + large.mean()


def test_data_loader_workers() -> None:
    kept = torch.ones(MIB)
    batches = list(DataLoader(Random(), batch_size=2, num_workers=2))
    assert torch.equal(torch.cat(batches)[:, 0], torch.arange(6) * 2.0)
    assert kept.all()


def _in_child(queue: multiprocessing.Queue) -> None:
    x = torch.ones(4 * MIB)
    queue.put((float(x.sum()), memory.stats()["misses"] > 0))


def test_a_forked_child_allocates() -> None:
    torch.set_num_threads(1)
    _dirty(32 * MIB)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == (4 * MIB, True)
    child.join()
    assert child.exitcode == 0


def test_profiler_sees_blocks() -> None:
    with torch.profiler.profile(profile_memory=True) as profile:
        x = torch.empty(8 * MIB)
        del x
    events = [e for e in profile.events() if e.name == "[memory]"]
    sizes = {e.cpu_memory_usage for e in events} | {
        e.cpu_memory_usage for e in profile.events() if e.cpu_memory_usage
    }
    assert 32 * MIB in sizes


def test_out_of_memory_is_torchs_error() -> None:
    _dirty(64 * MIB)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory"):
        _bytes(1 << 55)
    assert memory.stats()["reserved"] == memory.stats()["allocated"], "the cache is emptied first"
    assert not torch.zeros(MIB).any()


def test_capacity() -> None:
    cpuaccel.config.set("memory_cache_mib", 8)
    try:
        kept = [_bytes(6 * MIB) for _ in range(4)]
        kept.clear()
        stats = memory.stats()
        assert stats["reserved"] - stats["allocated"] <= 8 * MIB
        cpuaccel.config.set("memory_cache_mib", 0)
        stats = memory.stats()
        assert stats["reserved"] == stats["allocated"]
    finally:
        cpuaccel.config.set("memory_cache_mib", -1)


LIMITED = """
import resource, numpy, torch
name, field = NAME, FIELD
mapped = int(open("/proc/self/statm").read().split()[field]) * 4096
limit = mapped + 2 * 2**30
resource.setrlimit(getattr(resource, name), (limit, limit))
torch.empty(1536 * 2**20, dtype=torch.uint8)
print(len(numpy.empty(1434 * 2**20, dtype=numpy.uint8)) // 2**20)
"""


@pytest.mark.parametrize(("name", "field"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_others_get_the_address_space_that_a_tensor_had(name: str, field: int) -> None:
    code = LIMITED.replace("NAME, FIELD", f"{name!r}, {field}")
    assert run_python(code) == "1434"


def test_small_tensors_age_what_is_kept() -> None:
    """Without large tensors, cached memory still returns to the system."""
    code = """
import time, torch, cpuaccel.memory as memory
torch.empty(64 * 2**20, dtype=torch.uint8)
torch.empty(2 * 2**20, dtype=torch.uint8)
kept = [memory.stats()["reserved"] >= 64 * 2**20]
for _ in range(2):
    time.sleep(4.2)
    for _ in range(512):
        torch.empty(8)
print(*kept, memory.stats()["reserved"])
"""
    assert run_python(code) == "True 0"


def test_many_threads() -> None:
    """10,000 allocations in random order; each tensor is filled with its own number."""
    allocated, wrong = memory.stats()["allocated"], []

    def run(seed: int) -> None:
        chosen, held = random.Random(seed), []
        for _ in range(1250):
            if held and (len(held) > 3 or chosen.random() < 0.5):
                x = held.pop(chosen.randrange(len(held)))
                if int(x[0]) != seed or int(x[-1]) != seed:
                    wrong.append(seed)
            else:
                x = _bytes(chosen.randint(MIB, 3 * MIB))
                x[0] = x[-1] = seed
                held.append(x)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memory.stats()["allocated"] == allocated


WHY = "import torch, cpuaccel.memory as m; print(m.is_enabled(), m.why_off())"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"CPUACCEL_ALLOCATOR": "0"}, "CPUACCEL_ALLOCATOR in the environment switches it off"),
        ({"CPUACCEL": "0"}, "cpuaccel is off"),
    ],
    ids=["allocator", "all"],
)
def test_switched_off(environment: dict[str, str], reason: str) -> None:
    assert run_python(WHY, **environment) == f"False {reason}"


def test_another_malloc_is_left_alone(tmp_path) -> None:
    source = tmp_path / "other.c"
    source.write_text(
        "#include <stddef.h>\nextern void *__libc_malloc(size_t);\n"
        "extern void *__libc_memalign(size_t, size_t);\n"
        "void *malloc(size_t bytes) { return __libc_malloc(bytes); }\n"
        # As in malloc libraries. A Python linked to a fixed address has its own stub of malloc
        # before it.
        "int posix_memalign(void **block, size_t alignment, size_t bytes) {\n"
        "  *block = __libc_memalign(alignment, bytes);\n"
        "  return *block == NULL;\n"
        "}\n"
    )
    library = tmp_path / "libothermalloc.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert run_python(WHY, LD_PRELOAD=str(library)) == "False malloc comes from libothermalloc.so"


CASES: dict[str, Callable[[], Tensor]] = {
    "matmul": lambda: torch.ones(1200, 1200) @ torch.ones(1200, 1200),
    "cat": lambda: torch.cat([torch.ones(MIB), torch.zeros(MIB)]),
    "in place": lambda: torch.ones(2 * MIB).mul_(3).relu_(),
    "expanded": lambda: torch.ones(1, 1000).expand(3000, 1000).contiguous(),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same(name: str) -> None:
    ours = CASES[name]()
    with cpuaccel.enabled(False):
        assert torch.equal(ours, CASES[name]())
