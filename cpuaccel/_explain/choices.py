"""Notes on where the choices of float ops were measured: here, elsewhere, or by their own calls."""

from __future__ import annotations

from collections.abc import Iterator

from cpuaccel import matmul
from cpuaccel._native import Native


def choices_footer(native: Native) -> Iterator[str]:
    """Yield a sentence on the table of matrix products, and one on what calls have learned."""
    here, elsewhere = _places(native, True), _places(native, False)
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


def _places(native: Native, here: bool) -> str:
    places = [place for place, is_here in matmul.where_measured(native).items() if is_here == here]
    return "; ".join(places)
