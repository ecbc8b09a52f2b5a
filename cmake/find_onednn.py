"""Prints the prefix in which the PyPI packages put oneDNN's headers and library, or nothing."""

import importlib.metadata
import pathlib


def located(package: str, suffix: str) -> pathlib.Path | None:
    """The installed file of ``package`` whose path ends in ``suffix``."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(suffix):
            return pathlib.Path(str(file.locate())).resolve()
    return None


header = located("onednn-devel-cpu-gomp", "/oneapi/dnnl/dnnl.hpp")
library = located("onednn-cpu-gomp", "/libdnnl.so.3")
if header is not None and library is not None:
    print(header.parents[3], end="")
