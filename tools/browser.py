"""Chromium without a window: how a page looks, and what it holds after loading."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page itself is to be loaded, and no other Chromium of this user to be talked to.
_QUIET: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    "--disable-dev-shm-usage",  # which is small in a container
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-default-browser-check",
    ),
)
_TIMEOUT_S: Final = 300.0


def program() -> str | None:
    """The browser, or None where there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def photograph(page: Path, picture: Path, *, width: int = 1100, height: int = 1300) -> None:
    """Draw `page` into the PNG file `picture`."""
    _run(page, f"--window-size={width},{height}", f"--screenshot={picture.absolute()}")


def content(page: Path) -> str:
    """The document as the browser has understood it."""
    return _run(page, "--dump-dom")


def _run(page: Path, *options: str) -> str:
    found = program()
    if found is None:
        raise FileNotFoundError("no browser: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        shown, said = Path(profile) / "shown", Path(profile) / "said"
        # Into files: a process that Chromium leaves behind would hold a pipe open.
        with shown.open("wb") as out, said.open("wb") as err:
            done = subprocess.run(
                [found, *_QUIET, f"--user-data-dir={profile}", *options, page.absolute().as_uri()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=_TIMEOUT_S,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"{found} ended with {done.returncode}: {said.read_text(errors='replace')}")
        return shown.read_text()
