"""Attention on unmeasured CPUs: timed beside torch's kernel, and remembered."""

from __future__ import annotations

import json

import pytest
import torch
from _process import run_python

from compile._compiled import needs_onednn
from cpuaccel import _native

pytestmark = needs_onednn

SIZES = (1, 4, 64, 96, 32)  # N H L S E
FASTER = "torch's kernel was faster in tuning"

# The reference kernel has no measured rows on any CPU, and is far slower than torch's kernel.
_ASKED = f"""
import json
from cpuaccel import _native, config
native = _native.load()
asked = (*{SIZES}, False, True, False)
timed = native.attention_plan_fallback_reason(*asked)
(name,) = native.tuning_results()
native.set_tuning_results({{name: 0}})
known = native.attention_plan_fallback_reason(*asked)
config.set("deterministic", True)
print(json.dumps([timed, name, known, native.attention_plan_fallback_reason(*asked)]))
"""


# The last one has a larger cache than the data that is read between two runs.
@pytest.mark.parametrize(
    "sizes", [SIZES, (1, 4, 1, 96, 32), (2, 3, 7, 40, 16), (1, 1, 1, 1, 8), (1, 8, 1, 8192, 64)]
)
def test_both_run(sizes: tuple[int, ...]) -> None:
    for bf16 in (False, True):
        for mask, causal in ((False, False), (True, False), (False, True)):
            own, torchs = _native.load().time_attention(*sizes, bf16, mask, causal)
            assert 0 < own < 60
            assert 0 < torchs < 60


def test_it_draws_no_random_numbers_of_torch() -> None:
    before = torch.get_rng_state()
    _native.load().time_attention(*SIZES, False, False, False)
    assert torch.equal(torch.get_rng_state(), before)


def test_attention_is_timed_and_its_choice_is_cached() -> None:
    # One thread: while other tests run, one of two threads may have to wait for a core.
    given = {"CPUACCEL_MAX_ISA": "ref", "CPUACCEL_DETERMINISTIC": "0", "OMP_NUM_THREADS": "1"}
    timed, name, known, untimed = json.loads(run_python(_ASKED, **given))
    assert timed == FASTER
    assert name.startswith("attention f32 1 4 64 96 32 mask t1")
    assert known == ""
    assert untimed == "not measured on this CPU"
