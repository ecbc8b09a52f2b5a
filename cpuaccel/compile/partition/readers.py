"""Finds the sources and readers of nodes, where readers that are taken look through other nodes."""

from __future__ import annotations

from collections.abc import Container, Iterable

from torch.fx import Node

from cpuaccel.compile.bridge.translation import Translation


def outside_sources(
    nodes: list[Node], taken: Container[Node], translation: Translation
) -> Iterable[Node]:
    """Yield what `nodes` wait for, besides each other, when the nodes in `taken` are replaced."""
    inside = set(nodes)
    for node in nodes:
        for source in node.all_input_nodes:
            yield from (
                each for each in _awaited(node, source, taken, translation) if each not in inside
            )


def _awaited(
    reader: Node, source: Node, taken: Container[Node], translation: Translation
) -> Iterable[Node]:
    """Yield the nodes that `reader` waits for when it names `source`."""
    if (reader, source) not in translation.looked_through or reader not in taken:
        yield source
        return
    for each in source.all_input_nodes:
        yield from _awaited(reader, each, taken, translation)


def is_read_outside(
    node: Node, inside: set[Node], taken: Container[Node], translation: Translation
) -> bool:
    """Say whether a node outside of `inside` reads the result of `node`."""
    return any(reader not in inside for reader in _readers_of(node, taken, translation))


def _readers_of(node: Node, taken: Container[Node], translation: Translation) -> Iterable[Node]:
    """Yield the readers of `node` after the nodes in `taken` are replaced.

    A node that looks through a user of `node` reads `node`. That user itself reads it only if other
    nodes read the user; otherwise it is removed too.
    """
    for user in node.users:
        if user in taken:
            if (user, node) not in translation.looked_through:
                yield user
            continue
        through = _looking_through(user, taken, translation)
        yield from (each for each in through if (each, node) not in translation.looked_through)
        if not through or any(True for _ in _readers_of(user, taken, translation)):
            yield user


def _looking_through(node: Node, taken: Container[Node], translation: Translation) -> list[Node]:
    """Return the nodes in `taken` that look through `node`."""
    return [reader for reader in translation.readers_looking_through(node) if reader in taken]
