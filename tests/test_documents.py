"""The documents: links lead to files and headings; the form for bugs asks for what info prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuaccel import __main__ as command_line
from cpuaccel import _native

ROOT = Path(__file__).resolve().parents[1]
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml"

DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for file in ROOT.glob(pattern)
)

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _headings(file: Path) -> set[str]:
    """The anchors of a Markdown file, as GitHub derives them from the headings."""
    text = FENCED.sub("", file.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.*?) *#*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken_links(document: Path) -> Iterator[str]:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    for path, anchor in LINK.findall(text):
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            yield path
        elif anchor and file.suffix == ".md" and anchor not in _headings(file):
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path) -> None:
    assert list(_broken_links(document)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# A title\n[a](page.md#a-title) [b](page.md#b) [c](c.md) [d](#a-title)\n")
    assert list(_broken_links(document)) == ["page.md#b", "c.md"]


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "NOTICE", "CHANGELOG.md"]
)
def test_the_root_has_the_files_that_github_shows(name: str) -> None:
    assert (ROOT / name).is_file()


def test_the_form_for_bugs_asks_for_what_info_prints() -> None:
    yaml = pytest.importorskip("yaml", reason="no PyYAML")
    if _native.native() is None:
        pytest.skip("cpuaccel is off or not built: info prints fewer rows")
    fields = {field.get("id"): field for field in yaml.safe_load(FORM.read_text())["body"]}
    info = fields["info"]
    assert info["validations"]["required"]
    assert "`python -m cpuaccel info`" in info["attributes"]["label"]
    asked = re.findall(r"`(.*?)`", info["attributes"]["description"])
    printed = {row for row, _ in command_line._facts()}
    assert asked
    assert set(asked) <= printed


def test_the_form_for_bugs_is_a_form_of_github() -> None:
    yaml = pytest.importorskip("yaml", reason="no PyYAML")
    form = yaml.safe_load(FORM.read_text())
    assert form["name"]
    assert form["description"]
    assert [field["type"] for field in form["body"]] == ["markdown", *["textarea"] * 4]
    assert all(field["attributes"]["label"] for field in form["body"][1:])
