"""What differs between the versions of torch that the tests run with."""

from __future__ import annotations

import torch

AT_LEAST_2_14 = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)

ZERO_POINT_AFTER_ROUNDING = AT_LEAST_2_14
"""Whether a zero point is added after rounding where floats and averages become bytes.

If it is added before, halves go to the other neighbor if the zero point is odd.
"""
