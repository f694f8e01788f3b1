"""The page of a run as a browser shows it."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.status import goodput, report
from hpc_elastic.status.history import History
from tests.unit.status.test_report import HOSTILE, failed_run
from tools import browser

pytestmark = pytest.mark.needs_chromium
COLOURS = {"useful": (0x1B, 0x7F, 0x5C), "restarting": (0x7A, 0x6B, 0xB8)}


def written(folder: Path, name: str = "digits") -> Path:
    run = replace(failed_run(), run_id=name, name=name)
    page = folder / "run.html"
    page.write_text(report.html(run, History(), goodput.of_run(run, History(), 0.0)))
    return page


def pixels(picture: Path) -> tuple[int, int, set[tuple[int, int, int]]]:
    """Width, height and colours of a PNG of 8 bits a channel."""
    raw = picture.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    size = 3 if kind == 2 else 4
    at, packed = 8, b""
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        packed += raw[at + 8 : at + 8 + length] if raw[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    found: set[tuple[int, int, int]] = set()
    before = bytes(width * size)
    for line in _lines(zlib.decompress(packed), width * size):
        before = _unfiltered(line, before, size)
        found |= {(before[n], before[n + 1], before[n + 2]) for n in range(0, len(before), size)}
    return width, height, found


def _lines(data: bytes, length: int) -> list[bytes]:
    return [data[at : at + length + 1] for at in range(0, len(data), length + 1)]


def _unfiltered(line: bytes, above: bytes, size: int) -> bytes:
    """One line of a PNG, its filter undone (PNG specification, section 9)."""
    kind, out = line[0], bytearray(line[1:])
    for n in range(len(out)):
        left = out[n - size] if n >= size else 0
        corner = above[n - size] if n >= size else 0
        guess = (0, left, above[n], (left + above[n]) // 2, _paeth(left, above[n], corner))[kind]
        out[n] = (out[n] + guess) & 0xFF
    return bytes(out)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))


def test_the_page_is_drawn_with_its_bar_and_timeline(tmp_path: Path) -> None:
    picture = tmp_path / "run.png"

    browser.photograph(written(tmp_path), picture, width=900, height=700)

    width, height, colours = pixels(picture)
    assert (width, height) == (900, 700)
    assert set(COLOURS.values()) <= colours


def test_a_hostile_name_stays_text_in_the_browser(tmp_path: Path) -> None:
    document = browser.content(written(tmp_path, HOSTILE))

    assert not re.search(r"<script", document)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in document
