"""Pages that are made from the code say what the code says, and what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.generate_docs import DOCS, PAGES

ROOT = DOCS.parent
READ = tuple(
    str(page.relative_to(ROOT))
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted(DOCS.glob("**/*.md")),
        *sorted((ROOT / "examples").glob("*/README.md")),
    )
)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")

    assert written == PAGES[name](), "run `make docs`"


def anchors(page: Path) -> set[str]:
    """The places of a page that a link may name: its headings, as GitHub and MyST spell them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", READ)
def test_a_link_to_a_place_on_a_page_finds_it(page: str) -> None:
    path = ROOT / page
    named = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", path.read_text(encoding="utf-8"))

    assert [
        f"{file}#{anchor}"
        for file, anchor in named
        if anchor not in anchors((path.parent / file) if file else path)
    ] == []


@pytest.mark.parametrize("page", READ)
def test_what_a_page_points_to_is_there(page: str) -> None:
    """Links between pages, and paths in code quotes that begin with one of our folders."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    links = [path.parent / link for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", text)]
    quoted = re.findall(r"`((?:benchmarks|docs|examples|hpc_elastic|sbatch|tests|tools)/[\w./-]+)`", text)

    assert [str(one) for one in (*links, *(ROOT / name for name in quoted)) if not one.exists()] == []
