"""Whether this build runs torch.ao's quantized tensors (csrc/torch_ao)."""

from __future__ import annotations

from cpuaccel import _native

MISSING = (
    "this build of cpuaccel has no front end for torch.ao's quantized tensors "
    "(CPUACCEL_WITH_QUANTIZED_TENSORS=OFF, or a torch without them)"
)


def has_front_end() -> bool:
    """Return whether ops on quantized tensors and packed weights run on cpuaccel.

    Raises:
        RuntimeError: the compiled module cannot be loaded.
    """
    return bool(_native.load().build_info()["quantized_tensors"])


def require_front_end(what: str) -> None:
    """Check that this build can run `what`.

    Raises:
        RuntimeError: it cannot, or the compiled module cannot be loaded.
    """
    if not has_front_end():
        raise RuntimeError(
            f"{what}: {MISSING}. Use cpuaccel.quant.lower(model), whose result has plain tensors "
            "only, or install a build that has the front end."
        )
