"""`hpc-elastic COMMAND ...`: find the command, run it, turn errors into one line and a status."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from hpc_elastic.errors import HpcElasticError, UsageError
from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from hpc_elastic.cli.parser import CommandParser

# Name and one line of help; the module `hpc_elastic.cli.<name>` is imported only when it is used:
# an agent must not pay for submitit.
COMMANDS: Final[dict[str, str]] = {
    "run": "the agent of this node: starts and watches a script's workers",
    "submit": "a script as a job: checks, submits, says where its run is",
    "join": "more nodes for a running run, from a job of their own",
    "requeue": "once the agents have left: has Slurm start the job again, or not",
    "completion": "lines that let a shell complete commands, options and runs",
    "sandbox": "a private real Slurm on this machine, to rehearse on",
    "status": "what a run is doing, read from its run directory",
    "report": "where the time of a run went, as a page or a few lines",
    "logs": "what the workers of a run have printed",
    "doctor": "what this site gives a run, and how to get what is missing",
    "drain": "let a run save and stop, for good",
    "preempt": "rehearse a preemption: a run saves, leaves and is started again",
    "cancel": "end a run now",
}

_INTERRUPTED: Final = 130
# Their status decides what becomes of a job, so it never hangs on who reads what they print; and what goes
# wrong in them without an error of its own shall show where.
_JUDGED: Final = frozenset({"run", "requeue"})
_STDOUT: Final = 1
_STDERR: Final = 2


class Command(Protocol):
    """What a module of a command has."""

    add_arguments: Callable[[CommandParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    _fill_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    verbose = _take_verbose(words)
    try:
        return _with_output_taken(words)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except HpcElasticError as error:
        if verbose:
            raise
        return _complain(str(error), int(error.exit_code))
    except OSError as failed:
        if verbose or (words and words[0] in _JUDGED):
            raise
        what = f"{failed.filename}: {failed.strerror}" if failed.filename else f"{failed.strerror or failed}"
        again = f"`hpc-elastic -v {words[0] if words else ''}` shows where that happened"
        return _complain(f"{what}; {again}", int(ExitCode.FAILED))


def _with_output_taken(words: Sequence[str]) -> int:
    """Run one command until standard output has all that it said, or its reader has seen enough."""
    status: int | None = None
    try:
        status = _dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as failed:
        is_said = status is not None  # so it was the flush
        if _has_seen_enough(failed) and (is_said or words[0] not in _JUDGED):
            _discard_output()
            return int(ExitCode.DONE) if status is None else status
        if not is_said and _takes_output():
            raise
        _discard_output()
        if status is None or words[0] not in _JUDGED:
            raise _not_taken(failed) from failed
        _complain(str(_not_taken(failed)), status)
    return status


def _not_taken(failed: OSError) -> HpcElasticError:
    return HpcElasticError(f"standard output cannot be written: {failed.strerror}")


def _has_seen_enough(failed: OSError) -> bool:
    """Whether it failed because nobody reads our standard output any more, as after `| head`."""
    if not isinstance(failed, BrokenPipeError):
        return False
    import select

    look = select.poll()
    look.register(_STDOUT, 0)
    return any(event & select.POLLERR for _, event in look.poll(0))


def _takes_output() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _discard_output() -> None:
    """Let what standard output does not take go nowhere: the interpreter would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _complain(text: str, status: int) -> int:
    """One line, whatever it quotes: a newline or an escape sequence in a name is shown and not obeyed."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    print(f"hpc-elastic: {shown}", file=sys.stderr)
    return status


def _fill_standard_streams() -> None:
    """Open what is closed of the three, and let standard output take any name.

    Else the next file that is opened gets the number, and then our output.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free number
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", closefd=False)  # noqa: SIM115 (it stays open as the real one would)
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", closefd=False)  # noqa: SIM115 (the same)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A path that is no text goes out as it came in; where the terminal takes no UTF-8, as its code.
        is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


def _take_verbose(words: list[str]) -> bool:
    """Whether `-v` or `--verbose` stands in front of the command; it is removed from `words`."""
    found = False
    while words and words[0] in ("-v", "--verbose"):
        found = bool(words.pop(0))
    return found


def _dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return int(ExitCode.DONE if words else ExitCode.USAGE)
    if words[0] == "--version":
        from hpc_elastic import __version__

        print(f"hpc-elastic {__version__}")
        return int(ExitCode.DONE)
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        import difflib  # for a mistake only

        begun = [each for each in COMMANDS if len(name) > 1 and each.startswith(name)]
        near = begun or difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {name!r}; {hint}")
    return _run_command(name, rest)


def _run_command(name: str, words: Sequence[str]) -> int:
    from hpc_elastic.cli.parser import CommandParser

    command = cast(Command, import_module(f"hpc_elastic.cli.{name}"))
    parser = CommandParser(prog=f"hpc-elastic {name}", description=COMMANDS[name])
    command.add_arguments(parser)
    try:
        args, unknown = parser.parse_known_args(words)
    except SystemExit as ended:  # argparse has shown the help
        return int(ended.code or ExitCode.DONE)
    except OSError as refused:  # the help is all that is written here
        _discard_output()
        if not isinstance(refused, BrokenPipeError):
            raise _not_taken(refused) from refused
        return int(ExitCode.DONE)
    parser.refuse_unknown(unknown)
    args.words = tuple(words)
    return command.run(args)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        (
            "usage: hpc-elastic [-v] COMMAND ...",
            "",
            "Elastic distributed training on Slurm that survives preemption.",
            "",
            *lines,
            "",
            "`hpc-elastic COMMAND --help` explains one; -v in front of it shows tracebacks.",
        )
    )
