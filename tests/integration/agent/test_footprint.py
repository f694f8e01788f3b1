"""An agent is light: nothing of a third party is imported, and little memory is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[3]
_MOST_MIB: Final = 45
_AGENT: Final = """
import json, sys
from hpc_elastic.cli.main import main

status = main(sys.argv[1:])
# Not ru_maxrss: it counts what the parent had before the exec, here all of pytest.
peak_kib = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
modules = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print("RESULT", json.dumps([status, peak_kib, modules]))
"""
# What a small agent has no use for, each several milliseconds or megabytes.
_HEAVY: Final = (
    "asyncio",
    "concurrent.futures",
    "http",
    "logging",
    "multiprocessing",
    "ssl",
    "unittest",
    "shutil",
    "urllib.request",
)

# Of ours, what has to be asked for, or for which something has to go wrong.
_UNASKED: Final = ("health", "oom", "overdue", "overseer")


def agent(folder: Path) -> tuple[int, int, dict[str, str | None]]:
    (folder / "train.py").write_text("print('ran')")
    ended = subprocess.run(
        [sys.executable, "-c", _AGENT, "run", "--standalone", "--nproc-per-node", "2", "train.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    line = next(line for line in ended.stdout.splitlines() if line.startswith("RESULT"))
    status, peak_kib, modules = json.loads(line.removeprefix("RESULT"))
    return status, peak_kib, modules


def test_an_agent_imports_no_third_party_module_and_stays_small(tmp_path: Path) -> None:
    status, peak_kib, modules = agent(tmp_path)

    third_party = Path(sysconfig.get_path("purelib"))
    foreign = {name for name, file in modules.items() if file and third_party in Path(file).parents}
    # What site-packages hooks in at the start of every interpreter is not the agent's doing.
    foreign -= {
        name for name in sys.modules if name.startswith(("_virtualenv", "__editable__", "_distutils_hack"))
    }
    assert status == 0
    assert foreign == set()
    assert [name for name in _HEAVY if name in modules] == []
    assert [name for name in _UNASKED if f"hpc_elastic.agent.{name}" in modules] == []
    assert peak_kib / 1024 <= _MOST_MIB
