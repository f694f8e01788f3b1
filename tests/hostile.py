"""Names and arguments that a shell, Slurm or a format string would read something into."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

# Whoever runs one of these leaves a file of this name; not even its name may be spelled out otherwise.
MARK: Final = "executed"

# What may be part of a file's name, and of an argument.
TEXTS: Final = {
    "blanks": " two  blanks ",
    "quotes": 'it\'s "quoted"',
    "substitution": f"$(touch {MARK})",
    "backticks": f"`touch {MARK}`",
    "semicolon": f"a; touch {MARK}",
    "operators": f"a && touch {MARK} | cat > {MARK} #",
    "variable": "$HOME${PATH}",
    "newline": f"a\ntouch {MARK}\n#SBATCH --nodes=9",
    "unicode": "größe-訓練-🦆",
    "no unicode": os.fsdecode(b"\xff\xfe"),
    "leading dash": "-rf --nodes=9",
    "pattern": "* ? [a-z] ~ {a,b}",
    "Slurm's pattern": "100%j %% %A_%a.out",
    "format": "{} {0} %s %(x)s",
    "backslash": "a\\nb\\",
    "very long": "x" * 150,
}
# All at once, in a name that a file system takes, and one argument longer than that.
ARGUMENTS: Final = (*TEXTS.values(), "", "-", "--", "--nnodes=9", "--help", "y" * 100_000, "tab\there")
DIRECTORY: Final = f"-d $(touch {MARK}) `touch {MARK}`; 'q' \"d\" ü\n%j%% #SBATCH"

# A worker that tells what it was given and where it is.
TELLS: Final = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), "script": os.path.abspath(__file__)}))
"""


def told(output: Path) -> tuple[str, ...]:
    """The arguments that a worker with the script `TELLS` was given."""
    return tuple(json.loads(output.read_text())["arguments"])


def marks(*folders: Path) -> list[Path]:
    """The files that show that something was executed which was data."""
    return [path for folder in folders for path in folder.rglob(MARK)]
