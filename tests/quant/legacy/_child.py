"""Runs a loaded model in every way, in a process without torch.ao and quantized dtypes.

Usage: python -m quant.legacy._child FOLDER. It reads model.pt and input.pt from the folder, and
writes the outputs of each way to WAY.pt. The block is there before cpuaccel is imported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

WAYS = ("eager", "optimize", "compile", "export", "save", "aot")


def main(folder: Path, ways: list[str]) -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import torch.export

    given = torch.load(folder / "input.pt")
    from _torch_ao_block import blocked

    with blocked(), torch.no_grad():
        import cpuaccel

        cpuaccel.enable()
        loaded = cpuaccel.quant.load_legacy(folder / "model.pt")
        for way in ways:
            output = _run(cpuaccel, torch, way, loaded, given, folder)
            torch.save(output, folder / f"{way}.out")


def _run(cpuaccel: Any, torch: Any, way: str, loaded: Any, given: Any, folder: Path) -> Any:
    if way == "eager":
        return loaded(given)
    if way == "optimize":
        return cpuaccel.optimize(loaded, (given,), time_budget=0)(given)
    if way == "compile":
        return torch.compile(loaded, backend="cpuaccel", fullgraph=True)(given)
    if way == "export":
        exported = torch.export.export(loaded, (given,))
        torch.export.save(exported, folder / "exported.pt2")
        return torch.export.load(folder / "exported.pt2").module()(given)
    if way == "aot":
        cpuaccel.aot_compile(loaded, (given,), folder / "aot.pt2")
        return cpuaccel.load(folder / "aot.pt2")(given)
    optimized = cpuaccel.optimize(loaded, (given,), time_budget=0)
    cpuaccel.save(optimized, folder / "saved.pt2")
    return cpuaccel.load(folder / "saved.pt2")(given)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
