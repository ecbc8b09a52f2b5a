"""A file of results, one line per case, from which an interrupted run resumes."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

Case = TypeVar("Case")
"""A frozen dataclass whose fields are plain values."""


class ResultsFile(Generic[Case]):
    """The results of an earlier run and of this one, each written as soon as it is measured."""

    def __init__(self, path: Path, case: Callable[..., Case], *, resume: bool) -> None:
        """Creates the file, or resumes that of an interrupted run.

        Args:
            path: The file.
            case: Makes a case of its fields by name.
            resume: Whether the results that the file has are kept.

        Raises:
            ValueError: a line is not in the format that this program writes.
        """
        self._path = path
        self._of: dict[Case, dict[str, Any]] = {}
        if resume and path.exists():
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                try:
                    result = json.loads(line)
                    self._of[case(**result["case"])] = result
                except (ValueError, TypeError, KeyError) as error:
                    raise ValueError(f"{path}, line {number}: not a result: {error}") from None
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def __contains__(self, case: Case) -> bool:
        """Whether `case` was measured; a case without any result is tried again."""
        return case in self._of and "error" not in self._of[case]

    def add(self, case: Case, result: dict[str, Any]) -> None:
        """Writes the result of `case`."""
        self._of[case] = result
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def of(self, cases: Iterable[Case]) -> dict[Case, dict[str, Any]]:
        """The stored results among `cases`, in their order."""
        return {case: self._of[case] for case in cases if case in self._of}

    def machine(self) -> dict[str, str]:
        """The machine that the results were measured on.

        Raises:
            ValueError: they come from different machines or versions.
        """
        found: dict[str, str] = {}
        for result in self._of.values():
            facts = {k: v for k, v in result.get("machine", {}).items() if k != "threads"}
            if found and facts and facts != found:
                different = [name for name in found if facts.get(name) != found[name]]
                raise ValueError(
                    f"{self._path}: measured on different machines or versions:"
                    f" {', '.join(different) or 'settings'}; start again without --resume"
                )
            found = found or facts
        return found
