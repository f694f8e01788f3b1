"""What runs as the worker of a function: `python -m hpc_elastic.workers.calling PAYLOAD RESULTS`.

It does not touch the node's page: a function that never asks for its context is treated as the
plain script it is (a notice file, then SIGTERM).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from hpc_elastic.errors import BadEnvironment, SubmissionError, UsageError
from hpc_elastic.workers import payload
from hpc_elastic.workers.bootstrap import ERROR_FILE_VARIABLE, write_error_file


@dataclass(frozen=True)
class Place:
    """Which worker this is, and where its exception goes."""

    round: int
    rank: int
    error_file: Path | None

    @classmethod
    def parse(cls, environment: Mapping[str, str]) -> Place:
        """From the worker environment; raises BadEnvironment where no agent has set it."""
        try:
            number, rank = int(environment["HPC_ELASTIC_ROUND"]), int(environment["RANK"])
        except (KeyError, ValueError) as bad:
            raise BadEnvironment(f"{bad} in the environment; agents start this, not people") from None
        error_file = environment.get(ERROR_FILE_VARIABLE)
        return cls(number, rank, Path(error_file) if error_file else None)


def result_path(folder: Path, round_number: int, rank: int) -> Path:
    """Where the value that `rank` returned in a round is kept below `folder`."""
    return folder / str(round_number) / f"{rank}.pkl"


def exception_path(error_file: Path) -> Path:
    """Where the exception itself is kept that an error file tells of, if it could be pickled."""
    return error_file.with_suffix(".pkl")


def exception_in(error_file: Path) -> BaseException | None:
    """The exception kept beside an error file, or None where there is none or it cannot be loaded here."""
    try:
        found = payload.unpack_value(exception_path(error_file).read_bytes())
    except Exception:  # noqa: BLE001 - a foreign class may raise anything; the report says the same in words
        return None
    return found if isinstance(found, BaseException) else None


def call(payload_file: Path, results: Path, place: Place) -> None:
    """Load the function, call it, and keep its value below `results`, or its exception."""
    packed = payload.unpack(payload_file.read_bytes())
    worker = os.getpid()
    try:
        value = packed.function(*packed.args, **packed.kwargs)
        if os.getpid() != worker:
            return  # a process that the function forked and let return: the value is the worker's
        _write(result_path(results, place.round, place.rank), _packed(value, place.rank), place.rank)
    except Exception as error:
        if os.getpid() != worker:
            raise
        error.__traceback__ = _from_the_function_on(error.__traceback__)
        write_error_file(error)
        _keep(error, place)
        raise


def main(arguments: list[str]) -> None:
    """Be the worker of one function."""
    if len(arguments) != 2:
        raise UsageError(f"calling {' '.join(arguments)}: give the payload's file and the results' folder")
    call(Path(arguments[0]), Path(arguments[1]), Place.parse(os.environ))


def _packed(value: object, rank: int) -> bytes:
    try:
        return payload.pack_value(value)
    except Exception as why:
        raise SubmissionError(
            f"rank {rank}: the function returned a {type(value).__name__} that cannot be pickled "
            f"({type(why).__name__}: {why}); return plain data, or write a file and return its path"
        ) from why


def _write(path: Path, packed: bytes, rank: int) -> None:
    try:
        payload.write(path, packed)
    except OSError as refused:
        raise SubmissionError(
            f"rank {rank}: what the function returned has {len(packed)} bytes and cannot be written to "
            f"{path} ({refused.strerror}); make room there, or write it elsewhere and return its path"
        ) from refused


def _keep(error: Exception, place: Place) -> None:
    """Put the exception itself beside its error file; where it cannot travel, the text there is all."""
    if place.error_file is None:
        return
    try:
        payload.write(exception_path(place.error_file), payload.pack_value(error))
    except Exception as why:  # noqa: BLE001 - whatever its pickling raises, its own error comes first
        sys.stderr.write(f"hpc-elastic: the exception cannot be pickled, its text is kept: {why}\n")


def _from_the_function_on(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frame of this file, where something comes after it."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    main(sys.argv[1:])
