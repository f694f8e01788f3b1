"""Every error the package raises: one tree, each with the fact, the values and the next move."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    import signal


_MOST_SHOWN = 200


def shown(name: object) -> str:
    """A name as a message says it: quoted where it would break the line, without the middle of a long one."""
    text = str(name)
    if not text.isprintable():
        text = repr(text)
    if len(text) <= _MOST_SHOWN:
        return text
    half = _MOST_SHOWN // 2
    return f"{text[:half]}...{text[-half:]}"


class HpcElasticError(Exception):
    """Base of all errors of this package; `exit_code` is the status a command ends with."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class UsageError(HpcElasticError):
    """A value given by the user cannot be used; nothing was started."""

    exit_code = ExitCode.USAGE


class BadEnvironment(UsageError):
    """An environment variable is missing or malformed."""


class BadWorkerSpec(UsageError, ValueError):
    """A field of a `WorkerSpec` has a value that cannot be used."""


class RunDirectoryError(UsageError):
    """The run directory cannot be used: not writable, not a directory, or not ours."""


class RecordCorrupt(HpcElasticError):
    """A record in the run directory or the backend cannot be read as what it should be."""

    exit_code = ExitCode.RECORD_LOST


class BackendUnavailable(HpcElasticError):
    """One operation on the backend failed; it may work when tried again."""

    exit_code = ExitCode.RECORD_LOST


class BackendGone(BackendUnavailable):
    """The place of the record was there and has been removed; trying again does not help."""


class BackendRefused(BackendUnavailable):
    """A definite answer that stays the same until somebody changes something: a wrong password, say."""

    exit_code = ExitCode.USAGE


class RecordLost(HpcElasticError):
    """The run record was out of reach for longer than the store-lost budget, or was removed."""

    exit_code = ExitCode.RECORD_LOST


class RendezvousError(HpcElasticError):
    """Base of the errors of the rendezvous."""


class RendezvousClosedError(RendezvousError):
    """The run is closed: it is done, or it failed for good."""


class RendezvousTimeoutError(RendezvousError):
    """The rendezvous did not complete in time."""

    exit_code = ExitCode.RENDEZVOUS_TIMEOUT


class RendezvousConnectionError(RendezvousError):
    """The backend cannot be reached."""

    exit_code = ExitCode.RECORD_LOST


class RendezvousStateError(RendezvousError):
    """The state is corrupt, or an update was refused."""

    exit_code = ExitCode.RECORD_LOST


class RendezvousGracefulExitError(RendezvousError):
    """This node is to leave in good order: a newer attempt took over, or the last one leaves."""

    exit_code = ExitCode.SAVED


class RendezvousExhaustedError(RendezvousTimeoutError):
    """The join window is over and fewer than `min_nodes` came; `config` are the rules it was under."""

    def __init__(self, message: str, *, config: object = None, timeout_s: float | None = None) -> None:
        self.config = config
        self.timeout_s = timeout_s
        super().__init__(message)

    @property
    def timeout(self) -> float | None:
        """How long was waited at most, in seconds."""
        return self.timeout_s


class NodeLeftOut(RendezvousError):
    """The run goes on without this node, because rounds have ended by it again and again."""

    exit_code = ExitCode.NODE_SUSPECT


class StoreTimedOut(HpcElasticError, LookupError, TimeoutError):
    """Keys of a store had no value in time; `missing` are their names as bytes."""

    def __init__(self, message: str, *, missing: tuple[bytes, ...] = ()) -> None:
        self.missing = missing
        super().__init__(message)


class RanksMissing(StoreTimedOut):
    """Ranks have not done their part in time; `ranks` are their numbers."""

    def __init__(self, message: str, *, ranks: tuple[int, ...], missing: tuple[bytes, ...] = ()) -> None:
        self.ranks = ranks
        super().__init__(message, missing=missing)


class StoreOutcomeUnknown(HpcElasticError):
    """An operation may or may not have been carried out, and nobody can tell any more."""


class SignalException(HpcElasticError):
    """This process was told to end by the signal `sigval`."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        self.sigval = sigval
        super().__init__(msg)


class WorkerStateError(HpcElasticError):
    """The workers of a node are in a state from which an agent cannot go on."""


class NodeSuspect(HpcElasticError):
    """Something on this node does not end although it was killed: nothing more is to be started here."""

    exit_code = ExitCode.NODE_SUSPECT


class SubmissionError(HpcElasticError):
    """A job could not be submitted."""


class RunOver(HpcElasticError):
    """The run has come to its end: nothing of it can be stopped or told any more."""


class RunFailed(HpcElasticError):
    """A submitted run ended without success, or without the result that was asked for."""


class RunCancelled(RunFailed):
    """Somebody cancelled the run."""


class WaitTimedOut(HpcElasticError, TimeoutError):
    """The run has not come to its end in the time given; it goes on."""


class SandboxError(HpcElasticError):
    """The private Slurm could not be started, stopped or used."""
