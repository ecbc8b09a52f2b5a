"""Checks that the schemas of cpuaccel's ops in a file are those of this build."""

from __future__ import annotations

from typing import Any

import torch

from cpuaccel._version import __version__

REGION = "cpuaccel.graph_region.default"
"""The op of a region, as FX names it."""


def check_ops(schemas: dict[str, str], made_by: str) -> None:
    """Raise ValueError if an op of cpuaccel is missing in this build, or its schema has changed."""
    for name, schema in schemas.items():
        here = schema_of(name)
        if not here:
            raise ValueError(
                f"it calls {name}, which this build of cpuaccel lacks"
                + (": it was built without oneDNN" if name == "cpuaccel::graph_region" else "")
            )
        if here != schema:
            raise ValueError(
                f"made by {made_by}: it calls {schema}, this cpuaccel {__version__}"
                f" has {here}: write it again with this version"
            )


def schema_of(name: str) -> str:
    """Return the schema of an op of cpuaccel; an empty string if there is no such op."""
    namespace, _, op = name.partition("::")
    if namespace != "cpuaccel":
        raise ValueError(f"expected an op of cpuaccel, got {name!r}")
    found: Any = getattr(getattr(torch.ops, namespace), op, None)
    return "" if found is None else str(found.default._schema)
