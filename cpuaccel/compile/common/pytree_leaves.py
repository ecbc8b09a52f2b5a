"""The leaves of torch's pytrees, with readable names."""

from __future__ import annotations

from typing import Any

from cpuaccel._compat import keystr, tree_flatten_with_path, tree_leaves


def named_leaves(name: str, tree: Any) -> list[tuple[str, Any]]:
    """Return the leaves of `tree`, named `name`, in order, with names like `output['scores']`."""
    try:
        return [(name + keystr(path), leaf) for path, leaf in tree_flatten_with_path(tree)[0]]
    except ValueError:  # a class that was registered without names
        leaves = tree_leaves(tree)
        return [(f"{name} number {number}", leaf) for number, leaf in enumerate(leaves)]
