"""MkDocs hooks: pages from outside of docs/, links between them, and the API's directives.

Links in the pages are those of GitHub: paths from the page's own file. In the site, a page of docs/
has its path in docs/, and any other file has its path in the repository. A file other than a page,
such as LICENSE or a source file, is copied into the site if a page links to it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

# Code comes first, so that links in it stay as they are.
_CODE_OR_LINK = re.compile(
    r"^```.*?^```|`[^`\n]+`|\]\((?!https?:|mailto:)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^<!-- (:::.*(?:\n .*)*?) -->$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the navigation that are not in docs/."""
    for path in _paths(config.nav):
        if files.get_file_from_path(path) is None:
            _add_if_file(files, config, path)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at files of the site, and turn the comments that name API entries into them."""

    def add_if_new(path: str) -> None:
        if files.get_file_from_path(path) is None and not path.endswith(".md"):
            _add_if_file(files, config, path)

    is_in_docs = Path(page.file.abs_src_path or "").is_relative_to(config.docs_dir)
    source = f"docs/{page.file.src_uri}" if is_in_docs else page.file.src_uri
    return _DIRECTIVE.sub(r"\1", with_site_links(markdown, source, page.file.src_uri, add_if_new))


def with_site_links(
    markdown: str, source: str, page: str, on_target: Callable[[str], object] = str
) -> str:
    """Return the Markdown of the file `source` with links that work from `page` in the site.

    `on_target` is called with the site's path of the target of each link.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["path"] is None:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        target = target.removeprefix("docs/")
        on_target(target)
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"]({relative}{match['anchor'] or ''})"

    return _CODE_OR_LINK.sub(replaced, markdown)


def _paths(nav: Any) -> Iterator[str]:
    """Yield the paths in a navigation, which nests lists and mappings."""
    if isinstance(nav, str):
        yield nav
    elif nav is not None:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _paths(each)


def _add_if_file(files: Files, config: MkDocsConfig, path: str) -> None:
    """Add the file of this path in the repository; leave the warning to mkdocs if there is none."""
    if not (ROOT / path).is_file():
        return
    from mkdocs.structure.files import File, InclusionLevel

    # Included explicitly, because files whose names begin with a dot are excluded otherwise.
    files.append(
        File.generated(
            config, path, abs_src_path=str(ROOT / path), inclusion=InclusionLevel.INCLUDED
        )
    )
