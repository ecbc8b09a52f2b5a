"""Linear layers of 2 to 8 bits from GPTQ and AWQ checkpoints (safetensors)."""

from __future__ import annotations
