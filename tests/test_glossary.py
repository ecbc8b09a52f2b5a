"""Words: the glossary's forbidden words occur neither in names nor in comments, texts and pages.

docs/glossary.md lists them in the last column of its first table. `python tests/test_glossary.py`
prints every place, and how often each pattern occurs in each folder.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cached_property
from pathlib import Path

import pytest
from _repository import ROOT, files

GLOSSARY = ROOT / "docs" / "glossary.md"

FOLDERS = ("csrc", "cpuaccel", "benchmarks", "tools", "examples", "tests", "docs", "cmake")
FILES = ("README.md", "CONTRIBUTING.md", "CMakeLists.txt", "Makefile", "mkdocs.yml")
TEXTS = {".h", ".cpp", ".cc", ".inc", ".in", ".py", ".md", ".txt", ".toml", ".yml", ".cmake", ""}
# They list the forbidden words themselves.
EXCLUDED = {"docs/glossary.md", "tests/test_glossary.py"}

IDENTIFIER = re.compile(r"\w+")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
# Comment marks and quotes at the start of a line: a phrase may continue behind them.
MARGIN = re.compile(r"^\s*(?://+|#+|\*|>|-|\"+|f?\"|\|)?\s*")


@dataclass(frozen=True)
class Allowed:
    """Uses of a pattern that are fine: in these files, or as a part of this phrase."""

    pattern: str
    reason: str
    files: str = "*"
    phrase: str = ""


_TEXTS = "sentences that are embedded; a change would change the expected numbers"
_COLUMNS = "a column of printed results and of their JSON files"
_SETTING = "the public setting, its variable CPUACCEL_RANKS and its file"

ALLOWED = (
    Allowed("race", "the common term for unsynchronized accesses", phrase="data race"),
    Allowed("ours", "one of a pair of results, beside `theirs`", files="tests/*"),
    Allowed("our", "one of a pair of results, beside `their`", files="tests/*"),
    *(
        Allowed("ours", _COLUMNS, files=f)
        for f in ("benchmarks/arm/*", "docs/aarch64.md", "docs/graviton.md")
    ),
    Allowed("own kernel*", "kernels of torch, not of cpuaccel", phrase="torchs own kernel"),
    Allowed("own kernel*", "kernels of torch, not of cpuaccel", phrase="its own kernel"),
    Allowed("refus[aei]*", "also arguments, files and requests that are rejected", files="tests/*"),
    Allowed("refus[aei]*", "requests, for which the queue has no room", files="examples/serve/*"),
    Allowed("FloatType", "the name in torch's c10::TypeKind", phrase="TypeKind::FloatType"),
    Allowed("ranks", _SETTING, files="docs/guides/*"),
    *(Allowed("ranks", _SETTING, files=f) for f in ("cpuaccel/config.py", "tests/test_config.py")),
    Allowed("ranks", _SETTING, files="cpuaccel/_tuning_cache.py"),
    Allowed("ranks", _SETTING, files="benchmarks/simulation/cores.py"),
    Allowed("ranks", _SETTING, files="tests/compile/test_tuning_cache.py"),
    Allowed("ranks", _SETTING, files="tests/ops/test_learning.py"),
    Allowed("ranks", _SETTING, files="tests/*conftest.py"),
    Allowed("ranks", _SETTING, files="cpuaccel/compile/capture/model_key.py"),
    *(
        Allowed(word, _TEXTS, files="examples/minilm/sentences.py")
        for word in ("our", "cancelled", "travelled")
    ),
)


@dataclass(frozen=True)
class Pattern:
    """A code span of the glossary: an exact name, or words of a phrase with `*` and `[...]`."""

    text: str
    instead: str

    @cached_property
    def is_name(self) -> bool:
        """Whether it is matched letter by letter, as a name in code or of a file."""
        return re.search(r"[A-Z_./]", self.text) is not None

    @cached_property
    def name(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w){re.escape(self.text)}(?!\w)")

    @cached_property
    def words(self) -> list[re.Pattern[str]]:
        return [re.compile(translate(word)) for word in self.text.split()]

    def agrees(self, words: list[str]) -> bool:
        """Whether `words` are the words of this phrase."""
        return len(words) == len(self.words) and all(
            each.match(word) for each, word in zip(self.words, words, strict=True)
        )


@dataclass(frozen=True)
class Hit:
    """A place where a pattern occurs."""

    file: str
    line: int
    pattern: Pattern

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.pattern.text}`: {self.pattern.instead}"


def read_patterns(glossary: str) -> list[Pattern]:
    """The code spans in the last column of the first table, each with the word to use."""
    _, _, table = glossary.partition("| concept |")
    table, _, _ = table.partition("\n\n")
    patterns = []
    for row in table.splitlines()[2:]:
        cells = row.strip().removeprefix("|").removesuffix("|").split("|")
        concept, word, _, forbidden = (cell.strip() for cell in cells)
        instead = f"say {word!r} for {concept}"
        patterns += [Pattern(text, instead) for text in re.findall(r"`([^`]+)`", forbidden)]
    return patterns


def split_words(text: str) -> Iterator[tuple[str, int]]:
    """The words of prose and of identifiers in lower case, each with its line.

    "torch's" is one word. Other marks between words give an empty word, which ends a phrase.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        rest = APOSTROPHE.sub("", MARGIN.sub("", line))
        for token in re.findall(r"\w+|[^\w\s]", rest):
            if not IDENTIFIER.fullmatch(token):
                yield "", number
                continue
            for word in WORD.findall(token):
                yield word.lower(), number


class Finder:
    """Finds patterns in files. It remembers with which patterns' first word each word agrees."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        patterns = list(patterns)
        self._names = [each for each in patterns if each.is_name]
        self._phrases = [each for each in patterns if not each.is_name]
        self._begun_by: dict[str, list[Pattern]] = {"": []}

    def find(self, file: str, text: str) -> Iterator[Hit]:
        """The places in the path (line 0) and in the text of a file."""
        names = [each for each in self._names if each.text in text or each.text in file]
        for number, line in enumerate([file, *text.splitlines()] if names else []):
            for pattern in names:
                if pattern.name.search(line) and not _is_allowed(pattern, file, line):
                    yield Hit(file, number, pattern)
        yield from self._find_phrases(file, [(word, 0) for word, _ in split_words(file)])
        yield from self._find_phrases(file, list(split_words(text)))

    def _find_phrases(self, file: str, words: list[tuple[str, int]]) -> Iterator[Hit]:
        for at, (word, line) in enumerate(words):
            for pattern in self._patterns_from(word):
                found = [each for each, _ in words[at : at + len(pattern.words)]]
                around = " ".join(each for each, _ in words[max(0, at - 3) : at + 4])
                if pattern.agrees(found) and not _is_allowed(pattern, file, around):
                    yield Hit(file, line, pattern)

    def _patterns_from(self, word: str) -> list[Pattern]:
        if word not in self._begun_by:
            self._begun_by[word] = [each for each in self._phrases if each.words[0].match(word)]
        return self._begun_by[word]


def _is_allowed(pattern: Pattern, file: str, around: str) -> bool:
    return any(
        each.pattern == pattern.text and fnmatchcase(file, each.files) and each.phrase in around
        for each in ALLOWED
    )


def checked_files() -> list[str]:
    """The files that are checked, relative to the root."""
    return sorted(
        file
        for file in files() - EXCLUDED
        if (file in FILES or file.split("/")[0] in FOLDERS) and Path(file).suffix in TEXTS
    )


def find_all() -> list[Hit]:
    """All places of all patterns."""
    finder = Finder(read_patterns(GLOSSARY.read_text(encoding="utf-8")))
    hits: list[Hit] = []
    for file in checked_files():
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        hits += sorted(finder.find(file, text), key=lambda hit: hit.line)
    return hits


def test_no_forbidden_word_of_the_glossary_is_used() -> None:
    hits = find_all()
    assert not hits, "\n" + "\n".join(map(str, hits))


def test_the_glossary_has_patterns() -> None:
    patterns = {each.text: each.instead for each in read_patterns(GLOSSARY.read_text())}
    assert "ISA" in patterns["rung*"]
    assert "dry run" in patterns["rehears*"]
    unused = {each.pattern for each in ALLOWED} - patterns.keys()
    assert unused == set(), "ALLOWED has patterns that the glossary lacks"


TABLE = """# Glossary

| concept | word | not | forbidden |
|---|---|---|---|
| an ISA | ISA | rung | `rung*` |
| a kernel | cpuaccel kernel | own | `own kernel*`, `OwnThing`, `own.h` |
| spelling | American | British | `quantis[aei]*` |
| a race | tuning | race | `race` |

| word | meaning | | |
|---|---|---|---|
| engine | `engine` | | |
"""


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("a.cpp", "int kLastRung = 0;\n", [(1, "rung*")]),
        ("a.cpp", "int rung_of();  // wrung\n", [(1, "rung*")]),
        ("a.py", "x = 1\n# A kernel, not\n# an own\n# kernel.\n", [(3, "own kernel*")]),
        ("a.py", "class OwnKernels:\n", [(1, "own kernel*")]),
        ("a.py", "own, kernel\n", []),
        ("a.py", "class OwnThings:\n", []),
        ("a.py", "x = OwnThing()\n", [(1, "OwnThing")]),
        ("a.cpp", '#include "plan/grown.h"\n', []),
        ("a.cpp", '#include "own.h"\n', [(1, "own.h")]),
        ("own_kernel.cpp", "\n", [(0, "own kernel*")]),
        ("a.md", "Quantise, a quantisation; quantize.\n", [(1, "quantis[aei]*")] * 2),
        ("a.md", "A data race. Here is a race between kernels.\n", [(1, "race")]),
        ("a.md", "torch's own kernel; cpuaccel's own kernel\n", [(1, "own kernel*")]),
        ("a.md", "An engine is not in the first table.\n", []),
    ],
)
def test_a_made_up_file_is_searched(file: str, text: str, found: list[tuple[int, str]]) -> None:
    hits = Finder(read_patterns(TABLE)).find(file, text)
    assert [(hit.line, hit.pattern.text) for hit in hits] == found


def test_a_hit_names_the_place_and_the_word() -> None:
    (hit,) = Finder(read_patterns(TABLE)).find("a.cpp", "\nint rung;\n")
    assert str(hit) == "a.cpp:2: `rung*`: say 'ISA' for an ISA"


def _print_counts(hits: list[Hit]) -> None:
    by_folder = Counter((hit.pattern.text, "/".join(hit.file.split("/")[:2])) for hit in hits)
    for text, count in Counter(hit.pattern.text for hit in hits).most_common():
        folders = [f"{where} {n}" for (each, where), n in by_folder.most_common() if each == text]
        print(f"{count:5} `{text}`: {', '.join(folders)}")


if __name__ == "__main__":
    everything = find_all()
    print("\n".join(map(str, everything)))
    _print_counts(everything)
    sys.exit(bool(everything))
