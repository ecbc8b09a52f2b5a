"""Notes on where the choices of float ops were measured: here, elsewhere, or by their own calls."""

from __future__ import annotations

from collections.abc import Iterator

from cpuaccel import matmul
from cpuaccel._native import Native


def choices_footer(native: Native) -> Iterator[str]:
    """Yield a sentence on the table of matrix products, and one on what calls have learned."""
    places = matmul.where_measured(native)
    here = "; ".join(place for place, is_here in places.items() if is_here)
    elsewhere = "; ".join(place for place, is_here in places.items() if not is_here)
    if here:
        yield f"Matrix products: rows measured on this CPU's core ({here})."
    if elsewhere:
        yield f"Matrix products: rows measured elsewhere suggest a library ({elsewhere})."
    if not here and not elsewhere:
        yield "Matrix products: no row was measured for this CPU; calls begin with torch's kernels."
    learning = native.stats()["learning"]
    if learning["chosen"] or learning["open"]:
        yield (
            f"Learned here: {learning['chosen']} choices are made and {learning['open']} are open,"
            f" after {learning['probes']} probes in {learning['probe_seconds']:.2f} s of CPU time."
        )
