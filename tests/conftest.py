"""Capabilities of this machine: markers, the report header, and `--require`. Nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from hpc_elastic.testing.passthrough.mount import why_not
from hpc_elastic.testing.sandbox import packages
from tools import browser

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Capability:
    """Whether this machine offers a service: `found` is its version, or None and `why_not`."""

    found: str | None
    why_not: str = ""


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")


def _first_line_of(*command: str) -> str:
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return (shown.stdout or shown.stderr).strip().partition("\n")[0]


def _probe_slurm() -> Capability:
    needed = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm", "munged": "munge"}
    absent = {name: package for name, package in needed.items() if _program(name) is None}
    if absent:
        names, wanted = ", ".join(absent), " ".join(sorted(set(absent.values())))
        return Capability(None, f"{names} not installed: apt-get install {wanted}")
    if os.geteuid() != 0:
        return Capability(None, "a private Slurm with several users needs root")
    return Capability(_first_line_of(str(_program("slurmctld")), "-V"))


def _probe_accounting() -> Capability:
    missing = packages.missing_programs(accounting=True)
    if missing:
        return Capability(None, packages.describe_missing(missing))
    return Capability(_first_line_of(packages.program("mariadbd"), "--version"))


def _probe_etcd() -> Capability:
    program = _program("etcd")
    if program is None:
        return Capability(None, "etcd not installed: apt-get install etcd-server")
    return Capability(_first_line_of(program, "--version"))


def _probe_package(name: str) -> Capability:
    try:
        return Capability(f"{name} {version(name)}")
    except PackageNotFoundError:
        return Capability(None, f"{name} not installed: pip install {name}")


def _probe_fuse() -> Capability:
    reason = why_not()
    if reason:
        return Capability(None, reason)
    return Capability(f"{_first_line_of('fusermount3', '-V')}, mfusepy {version('mfusepy')}")


def _probe_faketime() -> Capability:
    """Its version stands in the package only."""
    if not sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")):
        return Capability(None, "libfaketime not installed: apt-get install faketime")
    return Capability("libfaketime")


def _probe_netns() -> Capability:
    """Only making one tells whether this user, in this container, may."""
    program = _program("ip")
    if program is None:
        return Capability(None, "ip not installed: apt-get install iproute2")
    name = f"hpc-elastic-probe-{os.getpid()}"
    made = subprocess.run([program, "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run([program, "netns", "del", name], capture_output=True, check=False)
    if made.returncode != 0:
        return Capability(None, f"network namespaces cannot be made: {made.stderr.strip()}")
    return Capability(_first_line_of(program, "-V"))


def _probe_chromium() -> Capability:
    program = browser.program()
    if program is None:
        return Capability(None, "no browser installed: apt-get install chromium")
    return Capability(_first_line_of(program, "--version"))


PACKAGES = ("torch", "lightning", "accelerate", "jax")
PROBES: dict[str, Callable[[], Capability]] = {
    "slurm": cache(_probe_slurm),
    "accounting": cache(_probe_accounting),
    "etcd": cache(_probe_etcd),
    **{name: cache(partial(_probe_package, name)) for name in PACKAGES},
    "fuse": cache(_probe_fuse),
    "faketime": cache(_probe_faketime),
    "netns": cache(_probe_netns),
    "chromium": cache(_probe_chromium),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        default="",
        metavar="NAMES",
        help=f"comma-separated capabilities ({', '.join(PROBES)}) whose absence is a failure and not a skip",
    )


def _heed_signals() -> None:
    """Under nohup, or in a shell's background, an agent rightly goes on ignoring what the tests send it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    _heed_signals()
    for name in PROBES:
        config.addinivalue_line("markers", f"needs_{name}: the test needs {name} on this machine")
    required = [name.strip() for name in config.getoption("--require").split(",") if name.strip()]
    for name in required:
        if name not in PROBES:
            raise pytest.UsageError(f"--require {name}: no such capability; known: {', '.join(PROBES)}")
        if PROBES[name]().found is None:
            raise pytest.UsageError(f"--require {name}: {PROBES[name]().why_not}")


def pytest_report_header() -> list[str]:
    seen = {name: probe() for name, probe in PROBES.items()}
    return [f"{name}: {one.found or 'absent, ' + one.why_not}" for name, one in seen.items()]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, probe in PROBES.items():
        if item.get_closest_marker(f"needs_{name}") and probe().found is None:
            pytest.skip(f"needs {name}: {probe().why_not}")
