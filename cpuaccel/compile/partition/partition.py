"""Partitions of a graph: ops that oneDNN Graph runs together, or one op of cpuaccel."""

from __future__ import annotations

from dataclasses import dataclass, field

from cpuaccel.compile.bridge.translation import Translation, Unit
from cpuaccel.compile.partition.cost import Choice


@dataclass
class Partition:
    """A partition: ops that run together, and the units that they belong to."""

    operations: list[int]
    units: list[Unit]
    supported: bool
    choice: Choice = field(default_factory=lambda: Choice(False, ""))

    def kinds(self, translation: Translation) -> list[str]:
        """Return the kinds of its ops, in order."""
        return [translation.operations[number].kind for number in self.operations]
