"""What the pages for people tell them to type."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Final

from tests.examples.example_runs import ROOT

PAGES: Final = tuple(
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("**/*.md")),
        *sorted((ROOT / "examples").glob("*/README.md")),
    )
)


def typed(page: str, section: str = "") -> list[str]:
    """The lines behind a prompt in the console blocks of a page or of one `## section`, without remarks.

    The prompt is `$`, or `#` for root.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    if section:
        _, text = text.split(f"\n## {section}\n")
        text = text.split("\n## ")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(("$ ", "# "))]
    return [re.split(r"\s{2,}# ", line[2:])[0].strip() for line in lines]


@dataclass(frozen=True)
class Block:
    """Code on a page: fenced, in the `language` of the fence, or set in by four blanks."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which tests name it."""
        return self.text.splitlines()[0].strip()


_FENCED: Final = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SET_IN: Final = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")


def blocks(page: str) -> list[Block]:
    """All code of a page, but for what is there for the builder of the site."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced = [Block(page, language, code) for language, code in _FENCED.findall(text)]
    set_in = [Block(page, "", textwrap.dedent(code)) for code in _SET_IN.findall(_FENCED.sub("", text))]
    return [one for one in (*fenced, *set_in) if not one.language.startswith("{")]


def spoken(page: str) -> list[str]:
    """The commands of ours that stand in the sentences of a page, in backticks."""
    text = _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    found = re.findall(r"`(hpc-elastic [^`]+)`", text)
    return [one.replace("\n", " ") for one in found if "COMMAND" not in one]


def block(page: str, first: str) -> str:
    """The code whose first line begins with `first`."""
    (found,) = (one.text for one in blocks(page) if one.first.startswith(first))
    return found


def training_script(own: str, steps: int, page: str = "README.md") -> str:
    """The script of a page that trains, behind `own`, which defines what is the reader's; `steps` steps."""
    (code,) = (one.text for one in blocks(page) if "    train_one_step(step)" in one.text)
    return own + re.sub(r"range\(start, [0-9_]+\)", f"range(start, {steps})", code)
