"""How the pages become a site: `make site`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_elastic import __version__

project = "hpc_elastic"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"hpc_elastic {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
highlight_language = "text"  # what has no language is no Python
exclude_patterns = ["measured"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
_CODE = re.compile(r"(?<![`:])`([^`\n]+)`(?!`)")


def as_restructured_text(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text: words in backticks are code, and so is what stands further in."""
    found: list[str] = []
    is_code = False
    for line in inspect.cleandoc("\n".join(lines)).split("\n"):
        is_in = line.startswith("    ")
        if is_in and not is_code and (not found or not found[-1]):
            found += ["::", ""]
            is_code = True
        elif line and not is_in:
            is_code = False
        found.append(line if is_code else _CODE.sub(r"``\1``", line.replace("*", r"\*").replace("|", r"\|")))
    lines[:] = found


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_restructured_text)
