"""What a worker starts as: binds its life to the agent's, then runs the user's program.

Run by its path, not with `-m`: the package need not be importable in the worker, and runpy's imports
are saved. What the user's script sees (`__main__`, `sys.argv`, `sys.path`, tracebacks, exit status) is
what `python SCRIPT` would show; tests compare the two. Standard library only, and little of it.

    python bootstrap.py AGENT_PID --script|--module|--command TARGET [ARGS...]
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the folder of this file, before anything is imported from it by mistake

# The C halves of signal and ctypes: what Python adds on top is 8 ms of enums and classes (measured,
# of 15 in all), and a worker that is restarted waits for it.
import _signal  # type: ignore[import-not-found]

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, whose import costs more than all of this file
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any, NoReturn

NOTICE_SIGNALS: tuple[int, ...] = (_signal.SIGUSR1, _signal.SIGUSR2)
STOP_SIGNALS: tuple[int, ...] = (_signal.SIGTERM, _signal.SIGHUP)
DUMP_SIGNAL: int = _signal.SIGQUIT
ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"
MAX_TEXT_CHARS = 64 * 1024

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Set this process up as a worker and become the user's program."""
    agent_pid, kind, target, *args = argv
    _die_with_the_agent(int(agent_pid))
    _settle_signals()
    if kind == "--command":
        _run_command([target, *args])
    _line_buffer_output()
    _register_stack_dumps()
    _watch_errors(_run_module if kind == "--module" else _run_script, target, args)


def _die_with_the_agent(agent_pid: int) -> None:
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        pass  # no ctypes in this build: the guard process still ends us
    # The agent may have died before the call above; then the signal will never come.
    if os.getppid() != agent_pid:
        os.kill(os.getpid(), _signal.SIGKILL)


def _settle_signals() -> None:
    # slurmd sends the notice signal to every process of the step, data loaders included; their default
    # action is death. The agent started us with these signals blocked, so there is no moment at which
    # one could hit; the script may install handlers of its own.
    for signum in NOTICE_SIGNALS:
        _signal.signal(signum, _signal.SIG_IGN)
    # An agent under nohup, or under a shell that ignores TERM, hands that down; we are to hear ours.
    for signum in STOP_SIGNALS:
        _signal.signal(signum, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (*NOTICE_SIGNALS, *STOP_SIGNALS))


def _line_buffer_output() -> None:
    # Output goes to a file; in blocks, a killed worker would take its last words with it.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)


def _register_stack_dumps() -> None:
    import faulthandler

    try:
        faulthandler.enable()
        faulthandler.register(DUMP_SIGNAL, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError, AttributeError):
        pass  # stderr is closed or not a file: no dumps


def _run_command(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        error.filename = command[0]
        write_error_file(error.with_traceback(None))
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        # As shells do: 127 not found, 126 found but not to be run.
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def _watch_errors(run: Any, target: str, args: list[str]) -> None:
    own_pid = os.getpid()
    try:
        run(target, args)
    except BaseException as error:
        if os.getpid() == own_pid and _is_failure(error):
            write_error_file(error)
        _hide_own_frames()
        raise


def _is_failure(error: BaseException) -> bool:
    return not isinstance(error, SystemExit) or not isinstance(error.code, (int, type(None)))


def _hide_own_frames() -> None:
    # Whatever hook the script has installed by now, it sees the user's frames only.
    hook = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        trace = without_own_frames(trace)
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = show


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _run_script(script: str, args: list[str]) -> None:
    sys.argv[:] = [script, *args]
    sys.orig_argv[:] = [sys.executable, script, *args]
    if os.path.isdir(script) or script.endswith((".zip", ".pyz", ".egg", ".pyc")):
        _run_container(script)
        return
    path = os.path.join(os.getcwd(), script)  # not normalized: Python shows ./train.py as /here/./train.py
    source = _read_script(path)
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    main_module = _fresh_main(path)
    code: CodeType = compile(source, path, "exec", dont_inherit=True)
    exec(code, main_module.__dict__)


def _read_script(path: str) -> bytes:
    import io

    try:
        with io.open_code(path) as file:
            return file.read()
    except OSError as error:
        write_error_file(error.with_traceback(None))
        reason = f"[Errno {error.errno}] {error.strerror}"
        sys.stderr.write(f"{sys.executable}: can't open file {path!r}: {reason}\n")
        sys.exit(2)


def _run_container(script: str) -> None:
    import runpy

    _fresh_main(None)
    if script.endswith(".pyc"):
        runpy.run_path(script, run_name="__main__")
        return
    sys.path.insert(0, os.path.join(os.getcwd(), script))
    runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]  # noqa: SLF001 (as below)


def _run_module(module: str, args: list[str]) -> None:
    import runpy

    sys.argv[:] = ["-m", *args]
    sys.orig_argv[:] = [sys.executable, "-m", module, *args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd())
    _fresh_main(None)
    # The function that the interpreter itself calls for -m, since 2.6.
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # noqa: SLF001 (see above)


def _fresh_main(path: str | None) -> Any:
    """A `__main__` without a trace of ours; multiprocessing and pickle look it up in sys.modules."""
    fresh = type(sys)("__main__")
    names: dict[str, Any] = {"__builtins__": sys.modules["builtins"], "__annotations__": {}}
    if path is not None:
        loader: Any = type(sys.modules[__name__].__loader__)  # the loader of files, without an import
        names |= {"__file__": path, "__cached__": None, "__loader__": loader("__main__", path)}
    fresh.__dict__.update(names)
    sys.modules["__main__"] = fresh
    return fresh


def write_error_file(error: BaseException, path: str | None = None) -> None:
    """Leave what happened where the agent looks for it; never raises, the first report stays."""
    path = path or os.environ.get(ERROR_FILE_VARIABLE)
    if not path or os.path.exists(path):
        return
    import contextlib
    import json
    import time
    import traceback

    kind = type(error)
    text = "".join(traceback.format_exception(kind, error, without_own_frames(error.__traceback__)))
    message = "".join(traceback.format_exception_only(kind, error)).strip()
    if isinstance(error, SyntaxError):  # there the place and the line of code come before what is wrong
        message = f"{kind.__qualname__}: {error}"
    report = {
        "schema": 1,
        "message": message[-MAX_TEXT_CHARS:],
        "type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        "traceback": text[-MAX_TEXT_CHARS:],
        "time_s": time.time(),
        "pid": os.getpid(),
    }
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(report, file)
        os.replace(temporary, path)
    except OSError:  # a full disk must not hide the script's own error
        with contextlib.suppress(OSError):  # it may never have been made
            os.unlink(temporary)


if __name__ == "__main__":
    main(sys.argv[1:])
