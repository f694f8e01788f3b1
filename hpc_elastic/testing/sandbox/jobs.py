"""Job records as `scontrol show job` prints them."""

from __future__ import annotations

import re
from typing import Final

# Values may hold blanks (`Command=/bin/echo a b`), names may hold a colon (`Reserve:Core`).
_FIELD: Final = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(.*?)(?=\s+[A-Za-z][\w:/]*=|\s*$)")


def parse(line: str) -> dict[str, str]:
    """The fields of one line of `scontrol show job -o`."""
    return dict(_FIELD.findall(line.strip()))
