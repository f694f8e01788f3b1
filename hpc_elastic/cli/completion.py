"""`hpc-elastic completion`: what lets a shell complete commands, options and the names of runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli.main import COMMANDS
from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EXAMPLES: Final = """
examples:
  eval "$(hpc-elastic completion bash)"        # in ~/.bashrc
  eval "$(hpc-elastic completion zsh)"         # in ~/.zshrc
"""
_WITH_RUN: Final = frozenset({"status", "logs", "report", "drain", "preempt", "cancel", "join"})
_HEAD: Final = """\
_hpc_elastic() {
  local word=${COMP_WORDS[COMP_CWORD]} options=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "%s" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
"""
_TAIL: Final = """\
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
    %s)
      local IFS=$'\\n' home=${HPC_ELASTIC_HOME:-hpc_elastic_runs}
      COMPREPLY=($(cd "$home" 2>/dev/null && compgen -d -- "$word"))
      ;;
  esac
}
complete -o bashdefault -o default -F _hpc_elastic hpc-elastic
"""


def add_arguments(parser: CommandParser) -> None:
    """Which shell."""
    parser.usage = "hpc-elastic completion bash|zsh"
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=("bash", "zsh"), metavar="bash|zsh", help="the shell that reads it")


def run(args: argparse.Namespace) -> int:
    """Print the lines that the shell has to read."""
    if args.shell == "zsh":
        print("autoload -Uz bashcompinit && bashcompinit")
    print(script(), end="")
    return int(ExitCode.DONE)


def script() -> str:
    """The function for bash, which zsh reads too."""
    cases = "".join(f'    {name}) options="{" ".join(options(name))}" ;;\n' for name in COMMANDS)
    return _HEAD % " ".join(COMMANDS) + cases + _TAIL % "|".join(sorted(_WITH_RUN & set(COMMANDS)))


def options(name: str) -> list[str]:
    """The long options of a command, as they are written with dashes."""
    from hpc_elastic.cli.parser import CommandParser

    parser = CommandParser(prog=name)
    import_module(f"hpc_elastic.cli.{name}").add_arguments(parser)
    shown = (action for action in parser._actions if action.help is not argparse.SUPPRESS)  # noqa: SLF001
    return sorted(
        option
        for action in shown
        for option in action.option_strings
        if option.startswith("--") and "_" not in option
    )
