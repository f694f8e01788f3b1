"""A private certificate authority for tests, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
_NAMES: Final = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\n"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Certificates:
    """Files of one authority: its own, a server's on loopback, and a client's."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.pem"

    def cert(self, who: str) -> Path:
        """The certificate of `server` or `client`."""
        return self.folder / f"{who}.pem"

    def key(self, who: str) -> Path:
        """The key of `ca`, `server` or `client`."""
        return self.folder / f"{who}.key"

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """A new authority, with a server and a client that it vouches for."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        subject = ("-subj", "/CN=hpc-elastic test authority")
        _openssl("req", "-x509", *_KEY, *subject, "-keyout", made.key("ca"), "-out", made.ca)
        for who in ("server", "client"):
            made._sign(who)
        return made

    def _sign(self, who: str) -> None:
        request, extensions = self.folder / f"{who}.csr", self.folder / f"{who}.ext"
        extensions.write_text(_NAMES)
        _openssl("req", *_KEY, "-subj", f"/CN={who}", "-keyout", self.key(who), "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key("ca"), "-CAcreateserial",
            "-extfile", extensions, "-days", "2", "-out", self.cert(who),
        )  # fmt: skip


def _openssl(*words: str | Path) -> None:
    subprocess.run(
        ("openssl", *map(str, words)),
        check=True,
        capture_output=True,
        timeout=_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
