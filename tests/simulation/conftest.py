"""`--rewrite` puts into the scenario scripts what their commands show now."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what scenarios show into their scripts")
