"""The parts of the server, without one: cores, percentiles, memory, request validation."""

from __future__ import annotations

import os
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.serve import cores, servable, smaps
from examples.serve.clients import Result, Target
from examples.serve.latency import Latency, percentile
from examples.serve.report import figures
from examples.serve.servable import BadRequest


@given(st.lists(st.integers(0, 500), unique=True), st.integers(1, 9), st.integers(1, 9))
def test_shares_are_disjoint_and_whole(all_cores: list[int], workers: int, threads: int) -> None:
    if workers * threads > len(all_cores):
        with pytest.raises(ValueError, match=f"at most {len(all_cores)}, .*{workers} x {threads}"):
            cores.partition(all_cores, workers, threads)
        return
    shares = cores.partition(all_cores, workers, threads)
    assert [len(share) for share in shares] == [threads] * workers
    used = [core for share in shares for core in share]
    assert len(set(used)) == len(used)
    assert set(used) <= set(all_cores)


@pytest.mark.parametrize(("workers", "threads"), [(0, 1), (1, 0), (-1, -1)])
def test_zero_workers_are_rejected(workers: int, threads: int) -> None:
    with pytest.raises(ValueError, match=f"expected 1 or more of each, got {workers} and"):
        cores.partition([0, 1], workers, threads)


def test_second_threads_of_a_core_come_last() -> None:
    siblings = {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}
    assert cores.physical_first([5, 4, 1, 0], siblings) == [0, 1, 4, 5]
    assert cores.physical_first([4, 5, 1], siblings) == [1, 4, 5]
    assert cores.physical_first([3, 2], {}) == [2, 3]


def test_usable_cores_are_those_of_this_process() -> None:
    assert set(cores.usable()) == os.sched_getaffinity(0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 100))
def test_percentiles_are_numpy_s(values: list[float], percent: float) -> None:
    expected = np.percentile(values, percent, method="inverted_cdf")
    found = percentile(sorted(values), percent)
    # At the boundary between two values, rounding may choose either.
    count = len(values)
    assert found == expected or abs(percent / 100 * count - round(percent / 100 * count)) < 1e-9


def test_percentiles_of_nothing_are_rejected() -> None:
    with pytest.raises(ValueError, match="expected values, got none"):
        percentile([], 50)
    for percent in (0, 100.5, -1):
        with pytest.raises(ValueError, match=f"got {percent}"):
            percentile([1.0], percent)


def test_latency_is_in_milliseconds() -> None:
    seconds = [k / 1000 for k in range(1, 101)]
    random.Random(3).shuffle(seconds)
    assert Latency.of(seconds) == Latency(100, 50.0, 90.0, 99.0)


def test_figures_of_a_load() -> None:
    result = Result(2.0, [0.25, 0.5, 0.75, 1.0], workers=Counter({"1": 3, "0": 1}), refused=5)
    found = figures(result)
    assert (found.rate, found.workers, found.refused) == (2.0, "25% 75%", 5)
    assert found.latency == Latency(4, 500.0, 1000.0, 1000.0)
    assert figures(Result(2.0)).latency is None


_ROLLUP = """\
55d0c0000000-7ffd2bdf5000 ---p 00000000 00:00 0                          [rollup]
Rss:              389120 kB
Pss:              143360 kB
Pss_Anon:         102400 kB
Pss_File:          40960 kB
Shared_Clean:     204800 kB
Shared_Dirty:     153600 kB
Private_Clean:      1024 kB
Private_Dirty:     29696 kB
"""


def test_memory_as_the_kernel_tells_it() -> None:
    assert smaps.parse(_ROLLUP) == smaps.Memory(380.0, 140.0, 100.0, 30.0, 350.0)
    with pytest.raises(ValueError, match="expected a line 'Private_Dirty', got"):
        smaps.parse(_ROLLUP.replace("Private_Dirty", "Private"))


def test_memory_of_this_process() -> None:
    memory = smaps.of(os.getpid())
    assert 0 < memory.anonymous <= memory.proportional <= memory.resident
    assert memory.private + memory.shared == pytest.approx(memory.resident, rel=0.1)
    assert smaps.threads(os.getpid()) >= 1


def _text(raw: bytes) -> str:
    return servable.text("text", servable.fields(servable.parse_json(raw), ("text",))["text"], 9)


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        (b"", "body", "expected JSON in UTF-8, got Expecting value"),
        (b"\xff{}", "body", "expected JSON in UTF-8, got"),
        (b"[1]", "body", "expected an object with 'text', got a list"),
        (b"3", "body", "an object with 'text', got a number"),
        (b"{}", "text", "expected this field, got an object with nothing in it"),
        (b'{"txt": "a"}', "text", "expected this field, got an object with 'txt'"),
        (b'{"text": "a", "more": 1}', "more", "expected no field but 'text'"),
        (b'{"text": null}', "text", "a string of 1 to 9 characters.*got null"),
        (b'{"text": true}', "text", "got a boolean"),
        (b'{"text": ["a"]}', "text", "got a list"),
        (b'{"text": " \\n"}', "text", "not all of them blanks, got ' "),
        (b'{"text": "0123456789"}', "text", "1 to 9 characters.*got 10 characters"),
        (b'{"text": "a\\ud800"}', "text", "got half of a surrogate pair"),
    ],
)
def test_bad_requests_name_the_field(raw: bytes, field: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as found:
        _text(raw)
    assert found.value.field == field
    assert found.value.as_json()["field"] == field
    assert found.value.as_json()["expected"] in str(found.value)


def test_a_good_request_is_accepted() -> None:
    assert _text('{"text": " ß "}'.encode()) == " ß "


def test_addresses_of_servers() -> None:
    assert Target.of("http://a.b:80/embed") == Target("a.b", 80, "/embed")
    for url in ("a.b:80/embed", "https://a.b:80/embed", "http://a.b/embed", "http://a.b:80"):
        with pytest.raises(ValueError, match="expected http://HOST:PORT/PATH, got"):
            Target.of(url)


@pytest.mark.parametrize("name", ["", "json", "json:", "no_such_module:A", "json:NoSuchClass"])
def test_models_that_are_not_there(name: str) -> None:
    with pytest.raises(ValueError, match="--model"):
        servable.make(name, "fp32")
