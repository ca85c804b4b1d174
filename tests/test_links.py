"""Every link of every page leads somewhere: to a file and a heading of the checkout, or outside.

Nothing is fetched. Links to the project's own files on the web are checked in the checkout.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.test_readme import RAW

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for pattern in (
        "*.md",
        ".github/*.md",
        "docs/*.md",
        "lua/*.md",
        "benchmarks/*.md",
        "tests/*.md",
    )
    for page in ROOT.glob(pattern)
)
#: Where the files of the checkout stand on the web.
BLOB = "https://github.com/ackq/ackq/blob/main/"
#: Where links may lead outside. Each further host is one more that can disappear.
HOSTS = {
    "github.com",
    "raw.githubusercontent.com",
    "pypi.org",
    "semver.org",
    "opentelemetry.io",
    "cloudevents.io",
    # The documentation of the projects that docs/why.md compares.
    "docs.celeryq.dev",
    "python-rq.org",
    "dramatiq.io",
    "docs.bullmq.io",
    "api.docs.bullmq.io",
    "docs.aws.amazon.com",
    "redis.io",
    "flower.readthedocs.io",
}
#: How a page of the site contains another one.
INCLUDE = re.compile(r"^```\{include\} (\S+)$.*?^```$", re.MULTILINE | re.DOTALL)
#: The site shows headings of these levels as anchors, see docs/conf.py.
LEVELS = 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in _links(page.read_text()):
        file, anchor = _target(page, link)
        if file is None:
            continue
        assert file.exists(), f"{link}: there is no such file"
        assert not anchor or anchor in _anchors(file), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_sites_are_well_formed_and_to_few_hosts(page: Path) -> None:
    text = page.read_text()
    for link in [*_links(text), *re.findall(r"<(https?:[^>]*)>", _prose(text))]:
        address = urlsplit(link)
        if not address.scheme or address.hostname == "127.0.0.1":
            continue
        assert address.scheme == "https", link
        assert address.hostname in HOSTS, link
        assert address.netloc == address.hostname, f"{link}: a port or a user"
        assert re.fullmatch(r"[!-~]+", link), f"{link}: a character that has to be escaped"
        assert "//" not in address.path, link


def test_links_of_the_package_index_need_no_other_page() -> None:
    """PyPI shows the README alone, so its links are absolute."""
    links = [*_links((ROOT / "README.md").read_text())]
    assert len(links) > 15
    assert all(link.startswith("https://") for link in links)
    assert any(link.startswith(BLOB) for link in links)


def test_links_are_recognised() -> None:
    text = "[a](b.md#c) ![d](e.png) `[no](x.md)`\n```\n[no](y.md)\n```\n[f][1]\n\n[1]: g.md\n"
    assert list(_links(text)) == ["b.md#c", "e.png", "g.md"]


def _links(text: str) -> Iterator[str]:
    prose = _prose(text)
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)
    yield from re.findall(r"^\[[^\]]+\]: (\S+)", prose, re.MULTILINE)


def _prose(text: str) -> str:
    """Return the text without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def _target(page: Path, link: str) -> tuple[Path | None, str]:
    """Return the file of the checkout that a link names, and the anchor in it."""
    path, _, anchor = link.partition("#")
    for start in (BLOB, RAW):
        if path.startswith(start):
            return ROOT / unquote(path.removeprefix(start)), unquote(anchor)
    if urlsplit(link).scheme:
        return None, ""
    return (page.parent / unquote(path)).resolve() if path else page, unquote(anchor)


@cache
def _anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub and the site make of a page's headings."""
    text = INCLUDE.sub(lambda found: (file.parent / found[1]).read_text(), file.read_text())
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    seen: Counter[str] = Counter()
    found = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for marks, title in re.findall(r"^(#+) (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        if len(marks) <= LEVELS:
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found
