"""The documents: links, the site's navigation, the names in the API reference, the form for bugs.

`make docs` builds the site. The tests here need no mkdocs.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from quant._engine import needs_plugin

from cpuaccel._cli.info import facts

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "mkdocs.yml"
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


def _pages() -> list[str]:
    """The pages in the navigation of the site, in order."""
    _, _, navigation = SITE.read_text(encoding="utf-8").partition("\nnav:\n")
    return re.findall(r"^ +- (?:.*: )?(\S+\.md)$", navigation, re.MULTILINE)


def test_every_page_of_docs_is_in_the_navigation() -> None:
    docs = ROOT / "docs"
    pages = {str(file.relative_to(docs)) for file in docs.glob("**/*.md")}
    assert pages
    assert sorted(pages - set(_pages())) == []


def test_every_page_of_the_navigation_exists_and_is_there_once() -> None:
    pages = _pages()
    assert len(pages) == len(set(pages))
    missing = [page for page in pages if not any((ROOT / d / page).is_file() for d in ("docs", ""))]
    assert missing == []


def test_every_page_outside_of_docs_that_a_page_links_to_is_in_the_navigation() -> None:
    pages = [file for page in _pages() for file in (ROOT / "docs" / page, ROOT / page)]
    linked = {
        (page.parent / path).resolve()
        for page in pages
        if page.is_file()
        for path, _ in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
        if path.endswith(".md")
    }
    assert sorted(linked - set(pages)) == []


def _site_hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "page", "link", "expected"),
    [
        ("README.md", "README.md", "docs/guides/serve.md#threads", "guides/serve.md#threads"),
        ("docs/api.md", "api.md", "../CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("docs/guides/serve.md", "guides/serve.md", "../api.md", "../api.md"),
        ("docs/guides/serve.md", "guides/serve.md", "../../LICENSE", "../LICENSE"),
        ("examples/x/README.md", "examples/x/README.md", "../../docs/api.md", "../../api.md"),
        ("docs/api.md", "api.md", "#cpuaccel", "#cpuaccel"),
        ("docs/api.md", "api.md", "https://pytorch.org/docs", "https://pytorch.org/docs"),
    ],
)
def test_links_of_github_become_links_of_the_site(
    source: str, page: str, link: str, expected: str
) -> None:
    text = "[`a`]({0}) and `[code]({1})`\n\n```\n[code]({1})\n```\n"
    changed = _site_hooks().with_site_links(text.format(link, link), source, page)
    assert changed == text.format(expected, link)


@pytest.mark.parametrize(
    "module", ["cpuaccel", "cpuaccel.quant", "cpuaccel.gnn", "cpuaccel.memory"]
)
def test_the_api_reference_has_every_public_function_and_class(module: str) -> None:
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^<!-- ::: ([\w.]+)", reference, re.MULTILINE)
    values = {"__version__", "cmake_prefix_path", "memory"}
    package = importlib.import_module(module)
    names = set(package.__all__) - values
    # A function in a module of its own name: by the short path griffe finds the module.
    inside = {f"{module}.{name}" for name in names} & set(sys.modules)
    paths = {f"{module}.{name}" for name in names} - inside
    paths |= {f"{path}.{path.rpartition('.')[2]}" for path in inside}
    assert sorted(paths - set(documented)) == []
    table = "\n".join(line for line in reference.splitlines() if line.startswith("|"))
    assert sorted(name for name in names if not re.search(rf"`{name}\b", table)) == []


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "NOTICE", "CHANGELOG.md"]
)
def test_the_root_has_the_files_that_github_shows(name: str) -> None:
    assert (ROOT / name).is_file()


@needs_plugin
def test_the_form_for_bugs_asks_for_what_info_prints() -> None:
    yaml = pytest.importorskip("yaml", reason="`import yaml` fails: PyYAML reads the form")
    fields = {field.get("id"): field for field in yaml.safe_load(FORM.read_text())["body"]}
    info = fields["info"]
    assert info["validations"]["required"]
    assert "`python -m cpuaccel info`" in info["attributes"]["label"]
    asked = re.findall(r"`(.*?)`", info["attributes"]["description"])
    printed = {row for row, _ in facts()}
    assert asked
    assert set(asked) <= printed


def test_the_form_for_bugs_is_a_form_of_github() -> None:
    yaml = pytest.importorskip("yaml", reason="`import yaml` fails: PyYAML reads the form")
    form = yaml.safe_load(FORM.read_text())
    assert form["name"]
    assert form["description"]
    assert [field["type"] for field in form["body"]] == ["markdown", *["textarea"] * 4]
    assert all(field["attributes"]["label"] for field in form["body"][1:])
