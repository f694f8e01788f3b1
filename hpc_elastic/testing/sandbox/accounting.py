"""slurmdbd with a private MariaDB, so that `sacct` works: no network, no password, one socket."""

from __future__ import annotations

import os
import pwd
import shutil
from typing import Final

from hpc_elastic.testing.sandbox import configuration, daemons
from hpc_elastic.testing.sandbox.configuration import Site
from hpc_elastic.testing.sandbox.daemons import Launcher, write_private

_INSTALL_TIMEOUT_S: Final = 240.0


def start(launcher: Launcher, site: Site) -> None:
    """Make the database, start it and slurmdbd; slurmdbd listens when this returns."""
    owner = _database_user()
    _install(launcher, owner)
    launcher.start("mariadbd", ["mariadbd", *_database_options(launcher, owner)])
    launcher.wait(launcher.layout.mariadb_socket.exists, what="the database's socket")
    write_private(launcher.layout.slurmdbd_conf, configuration.slurmdbd_conf(site).encode())
    # slurmdbd cannot be told a socket; the client library takes it from this variable.
    launcher.start(
        "slurmdbd", ["slurmdbd", "-D"], extra={"MYSQL_UNIX_PORT": str(launcher.layout.mariadb_socket)}
    )
    launcher.wait(lambda: daemons.listens(site.ports.accounting or 0), what="slurmdbd's port")


def _install(launcher: Launcher, owner: str) -> None:
    folder = launcher.layout.mariadb
    folder.mkdir()
    shutil.chown(folder, owner)
    options = [
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        f"--user={owner}",
        "--auth-root-authentication-method=socket",
        "--auth-root-socket-user=root",
        "--skip-test-db",
        "--skip-name-resolve",
    ]
    launcher.start("mariadb-install-db", ["mariadb-install-db", *options])
    launcher.wait_for_end("mariadb-install-db", timeout_s=_INSTALL_TIMEOUT_S)


def _database_options(launcher: Launcher, owner: str) -> list[str]:
    folder = launcher.layout.mariadb
    return [
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        f"--socket={launcher.layout.mariadb_socket}",
        f"--pid-file={folder / 'pid'}",
        f"--tmpdir={folder}",
        f"--user={owner}",
        "--skip-networking",
        # A sandbox's history is not worth a disk flush.
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-log-file-size=16M",
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
    ]


def _database_user() -> str:
    """`mysql`, which Debian's package makes; else whoever we are."""
    try:
        return pwd.getpwnam("mysql").pw_name
    except KeyError:
        return pwd.getpwuid(os.getuid()).pw_name
