"""The ordinary user of a sandbox: jobs that run only as root prove little."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from hpc_elastic.errors import SandboxError, UsageError
from hpc_elastic.testing.sandbox.configuration import LOOPBACK_VARIABLE, NODE_VARIABLE, SANDBOX_VARIABLE
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.packages import program

MADE_ACCOUNT: Final = "hpcsandbox"
_IDENTITY: Final = ("SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND", "MAIL", "SSH_AUTH_SOCK")


@dataclass(frozen=True)
class Account:
    """Who runs commands and jobs in a sandbox."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path
    shell: str

    @classmethod
    def find(cls, name: str, *, home: Path | None = None) -> Account:
        """The account with this name; `home` replaces the one on record."""
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise UsageError(f"--user {name}: there is no such user; see `getent passwd`") from None
        groups = tuple(os.getgrouplist(name, entry.pw_gid))
        shell = entry.pw_shell or "/bin/sh"
        return cls(name, entry.pw_uid, entry.pw_gid, groups, home or Path(entry.pw_dir), shell)

    def may_enter(self, directory: Path) -> bool:
        """Whether the mode of a directory lets this user pass through it."""
        found = directory.stat()
        if self.uid == found.st_uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid in self.groups:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def choose(wanted: str | None, layout: Layout, environ: Mapping[str, str]) -> Account:
    """The user asked for, else the one behind sudo, else an account made for sandboxes.

    The made account has its home inside the sandbox and stays in /etc/passwd after `down`.
    """
    name = wanted or environ.get("SUDO_USER", "root")
    if wanted is None and name == "root":
        _make()
        return Account.find(MADE_ACCOUNT, home=layout.home)
    account = of_name(name, layout)
    if account.uid == 0:
        raise UsageError(f"--user {name}: a sandbox needs an ordinary user, and this one is root")
    return account


def of_name(name: str, layout: Layout) -> Account:
    """The account again, from its name in the sandbox's state."""
    return Account.find(name, home=layout.home if name == MADE_ACCOUNT else None)


def _make() -> None:
    if _exists(MADE_ACCOUNT):
        return
    command = [program("useradd"), "--system", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run(
        [*command, "--shell", "/bin/bash", MADE_ACCOUNT], capture_output=True, text=True, check=False
    )
    # Another sandbox may have made it in the same moment.
    if done.returncode != 0 and not _exists(MADE_ACCOUNT):
        raise SandboxError(
            f"cannot make the account {MADE_ACCOUNT}: {done.stderr.strip()}; name an existing one with --user"
        )


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def environment(base: Mapping[str, str], layout: Layout, account: Account) -> dict[str, str]:
    """What a command of this user sees: this Slurm and no other, this identity and no other.

    A surrounding job's `SLURM_*` would make `srun` believe that it is inside that job.
    """
    switched = base.get("USER") != account.name or base.get("HOME") != str(account.home)
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith("SLURM")
        and name != NODE_VARIABLE
        and not (
            switched and (name in _IDENTITY or name.startswith("XDG_") or name == "DBUS_SESSION_BUS_ADDRESS")
        )
    }
    return kept | {
        "SLURM_CONF": str(layout.slurm_conf),
        SANDBOX_VARIABLE: str(layout.directory),
        LOOPBACK_VARIABLE: "1",
        "USER": account.name,
        "LOGNAME": account.name,
        "HOME": str(account.home),
        "SHELL": account.shell,
        "PATH": base.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
    }


def become(account: Account) -> Path | None:
    """Become the user, for the rest of this process; without root we stay who we are.

    The working directory is kept where that user may write, because a job's output is to go there;
    Slurm fails such a job without a word. Else it is their home, and the directory left is returned.
    """
    if os.geteuid() == 0:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    if os.access(".", os.W_OK | os.X_OK):
        return None
    left = Path.cwd()
    os.chdir(account.home)
    return left


def execute(argv: Sequence[str], account: Account, variables: Mapping[str, str]) -> NoReturn:
    """Become the program; the caller's shell sees the program's own exit status."""
    found = shutil.which(argv[0], path=variables.get("PATH"))
    if found is None:
        raise UsageError(
            f"exec: {argv[0]} not found, for {account.name}, in PATH={variables.get('PATH', '')}"
        )
    try:
        os.execve(found, list(argv), dict(variables))
    except OSError as problem:
        raise UsageError(
            f"exec: cannot run {found} as {account.name}: {problem.strerror}; "
            "it and its interpreter must be where every user can read, so not below /root"
        ) from problem
