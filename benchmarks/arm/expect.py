"""Estimates times on a Graviton core from counted instructions; nothing was timed on these cores.

    python -m benchmarks.arm.expect CORE COUNTS.json

CORE is c7g or c8g. COUNTS.json is the file that gemm_instructions.py wrote for graviton3 or
graviton4. A call with `MAC` multiply-adds and `I` instructions is expected to take

    cycles = MAC / (peak * share) + (I - inner) / 4

`share` is llvm-mca's estimate for the inner loop (tools/arm_peak.py). `inner` is the number of its
instructions, 3 for 2 products; all other instructions run at four per cycle. The formula assumes
that weights are in L2 (K N of at most 1 MiB) and that nothing else waits for memory.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks._arguments import make_parser


@dataclass(frozen=True)
class Core:
    """A core: its clock in hertz, vector width in bits, and peaks in multiply-adds per cycle."""

    hertz: float
    vector_bits: int
    peaks: dict[str, int]


PEAKS = {"f32": 16, "bf16": 64, "fast math": 64}
CORES = {"c7g": Core(2.6e9, 256, PEAKS), "c8g": Core(2.8e9, 128, PEAKS)}
SHARES = {"f32": 0.997, "bf16": 0.994, "fast math": 0.96}
# Multiply-adds of one 128-bit instruction.
PRODUCTS = {"f32": 4, "bf16": 16, "fast math": 16}


def main() -> None:
    """Print the table."""
    parser = make_parser(__spec__, __doc__)
    parser.add_argument("core", choices=CORES, help="instance whose core is estimated")
    parser.add_argument("counts", type=Path, help="JSON file of gemm_instructions.py")
    options = parser.parse_args()
    core = CORES[options.core]
    rows = json.loads(options.counts.read_text())
    columns = list(rows[0]["counts"])
    print(f"{options.core}: us per call, and share of the peak")
    print(f"{'':24}" + "".join(f"{name:>18}" for name in columns))
    for row in rows:
        name = f"{row['kind']} {row['M']}x{row['K']}x{row['N']}"
        cells = [_expected(core, row, row["counts"][column]) for column in columns]
        print(f"{name:24}" + "".join(f"{cell:>18}" for cell in cells))


def _expected(core: Core, row: dict[str, object], instructions: int) -> str:
    kind, products = str(row["kind"]), int(row["M"]) * int(row["K"]) * int(row["N"])  # type: ignore[call-overload]
    inner = 1.5 * products / (PRODUCTS[kind] * core.vector_bits / 128)
    ideal = products / core.peaks[kind]
    cycles = ideal / SHARES[kind] + max(0.0, instructions - inner) / 4
    return f"{cycles / core.hertz * 1e6:10.1f} {100 * ideal / cycles:5.1f}%"


if __name__ == "__main__":
    main()
