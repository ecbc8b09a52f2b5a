"""Every case of bad input, by name. See test_bad_input.py."""

from __future__ import annotations

from quant import _bad_conv, _bad_fused, _bad_linear
from quant._bad_input import Case

CASES: dict[str, Case] = {
    f"{group}: {name}": case
    for groups in (_bad_linear.GROUPS, _bad_conv.GROUPS, _bad_fused.GROUPS)
    for group, cases in groups.items()
    for name, case in cases.items()
}
# Cases that torch's own kernels reject in the same words.
TORCHS: dict[str, Case] = {name: case for name, case in CASES.items() if case.torch_too}
