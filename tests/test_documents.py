"""The documents: links, files and names in them, the navigation, the API reference, the bug form.

`make docs` builds the site. The tests here need no mkdocs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from _repository import ROOT, files
from quant._engine import needs_plugin

from cpuaccel._cli.info import facts

SITE = ROOT / "mkdocs.yml"
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml"

DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for file in ROOT.glob(pattern)
)

# The files and names of other projects that pages mention.
OTHER_FILES = {
    *("test_scatter_gather_ops.py", "test_segment_reductions.py"),  # torch
    *("test_sparse.py", "test_sparse_csr.py", "test/test_jit_llga_fuser.py"),  # torch
    "tests/cpu/test_ao_jit_llga_quantization_fuser.py",  # Intel's extension for PyTorch
}
OTHER_NAMES = {"AOTI_CPU_ISA", "GLIBC_TUNABLES", "cblas_sgemm_compute"}

SOURCES = (
    *("csrc", "cpuaccel", "benchmarks", "tools", "examples", "tests", "cmake", "requirements"),
    *("Makefile", "CMakeLists.txt", "pyproject.toml"),
)
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`")
FILE = re.compile(
    r"[\w.][\w./-]*\.(?:py|h|cpp|cc|inc|csv|md|toml|yml|cmake)"
    r"|(?:csrc|cpuaccel|benchmarks|tools|examples|tests|docs|cmake|requirements)/[\w./-]*"
)
# A family has one of each of these; which one is meant, the sentence says.
ROLES = {"impl.h", "kernels.inc", "ref.cpp"}

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


@functools.cache
def _paths() -> frozenset[str]:
    """The files of the repository, relative to the root, and its folders."""
    return files() | {str(folder) for file in files() for folder in Path(file).parents}


def _wrong_files(text: str, folder: Path) -> Iterator[str]:
    """The code spans that name no file of the repository, or more than one.

    A short form is the end of a path, such as `quant/layer.cpp`. A name with NAME or FAMILY in it
    stands for any name.
    """
    for span in CODE_SPAN.findall(FENCED.sub("", text)):
        if not FILE.fullmatch(span) or re.search("[A-Z]{3}", span) or span in OTHER_FILES:
            continue
        path = span.rstrip("/")
        if path in _paths() or (folder / path).exists() or path in ROLES:
            continue
        found = [file for file in _paths() if file.endswith("/" + path)]
        if len(found) != 1:
            yield f"`{span}`: " + (f"which of {sorted(found)}?" if found else "no such file")


def _without_forbidden_names(glossary: str) -> str:
    """The glossary without the last column of its first table, which names former files."""
    before, head, table = glossary.partition("| concept |")
    table, end, after = table.partition("\n\n")
    rows = [row.rstrip().removesuffix("|").rpartition("|")[0] for row in table.splitlines()]
    return before + head + "\n".join(rows) + end + after


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_that_a_page_names_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    if document.name == "glossary.md":
        text = _without_forbidden_names(text)
    if document.name != "CHANGELOG.md":
        assert list(_wrong_files(text, document.parent)) == []


def test_a_wrong_file_name_is_found() -> None:
    text = "`docs/glossary.md` `glossary.md` `absent.py` `csrc/absent/` `x86_NAME.cpp`\n"
    assert list(_wrong_files(text, ROOT)) == [
        "`absent.py`: no such file",
        "`csrc/absent/`: no such file",
    ]
    (ambiguous,) = _wrong_files("`overrides.cpp`", ROOT)
    assert (
        ambiguous
        == "`overrides.cpp`: which of ['csrc/ops/overrides.cpp', 'csrc/torch_ao/overrides.cpp']?"
    )


@functools.cache
def _identifiers() -> set[str]:
    """All words of the sources, and the names of other projects."""
    words = set(OTHER_NAMES)
    for name in files():
        if name.split("/")[0] in SOURCES:
            text = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
            words.update(re.findall(r"\w+", text))
    return words


def _wrong_names(text: str) -> Iterator[str]:
    """The names of functions, classes and variables in code spans that no source has."""
    for span in CODE_SPAN.findall(FENCED.sub("", text)):
        if not re.fullmatch(r"[A-Za-z_][\w:.]*(?:\(\))?", span) or span in OTHER_FILES:
            continue
        for name in re.split(r"\W+", span):
            is_code = "_" in name or re.search("[a-z][A-Z]", name)
            if is_code and "NAME" not in name and name not in _identifiers():
                yield name


@pytest.mark.parametrize(
    "document",
    [
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "architecture.md",
        *(ROOT / "docs" / "guides").glob("*.md"),
        *(ROOT / "docs" / "internals").glob("*.md"),
    ],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_names_in_pages_exist(document: Path) -> None:
    assert list(_wrong_names(document.read_text(encoding="utf-8"))) == []


def test_a_wrong_name_is_found() -> None:
    absent = ["absent" + "_function", "find" + "Absent"]  # in two parts, for this is a source too
    text = f"`{absent[0]}()`, `Absent::{absent[1]}`, `_wrong_names` and `a-b`"
    assert list(_wrong_names(text)) == absent


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
