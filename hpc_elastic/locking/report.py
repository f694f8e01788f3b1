"""What a directory gives, as a frozen value with a JSON form that stands in the run directory."""

from __future__ import annotations

import json
from typing import Any, Final

from hpc_elastic.locking.exclusive import Way
from hpc_elastic.values import asdict, dataclass

SCHEMA: Final = 1
MAX_BYTES: Final = 64 * 1024
NOT_ASKED: Final = "not asked"
_TYPES: Final[dict[str, type]] = {"str": str, "int": int, "bool": bool, "float": float}


@dataclass(frozen=True)
class DirectoryReport:
    """Found by trying, in `directory`, by one host. An empty `refusal`: it can hold a run record.

    `way` is how exclusive creation is done there. `kind` and `source` come from the mount table and
    are for people only. `flock` is one of the words of `locks.py`. `create_s` is how long it took to
    write and flush one small file. It and `free_bytes` and `free_files` are -1 where they are unknown.
    """

    directory: str
    host: str
    kind: str
    source: str
    way: str
    has_links: bool
    has_replacing_rename: bool
    flock: str
    create_s: float
    free_bytes: int
    free_files: int
    owner: int
    mode: int
    refusal: str = ""

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}).encode()

    @classmethod
    def decode(cls, raw: bytes) -> DirectoryReport:
        """From JSON. Raises `ValueError` for anything that is not such a report."""
        try:
            body = json.loads(raw) if len(raw) <= MAX_BYTES else None
        except RecursionError as deep:
            raise ValueError(f"not a report of a directory: {raw[:60]!r}") from deep
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise ValueError(f"not a report of a directory: {raw[:60]!r}")
        values = {
            name: _checked(name, kind, body[name])
            for name, kind in cls.__annotations__.items()
            if name in body
        }
        try:
            report = cls(**values)
            Way(report.way or Way.LINK)
        except TypeError as lacking:
            raise ValueError(f"not a report of a directory: {lacking}") from lacking
        return report


def _checked(name: str, kind: str, value: Any) -> Any:
    wanted = _TYPES[kind]
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        raise ValueError(f"a report of a directory has {name} = {value!r:.80}: a {kind} belongs there")
    return value
