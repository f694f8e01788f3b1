"""The options of `run` about output and what a worker has of its node, as torchrun's users write them."""

from __future__ import annotations

import pytest

from hpc_elastic.cli import run_options
from hpc_elastic.cli.run_options import RunOptions
from hpc_elastic.errors import UsageError
from hpc_elastic.workers.streams import Filters, Std


def parsed(*words: str) -> RunOptions:
    return run_options.parse([*words, "train.py"])


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("", ()),
        ("loss", ("loss",)),
        ("loss,eval acc", ("loss", "eval acc")),
        ("a,,b", ("a,b",)),
        ("a,,,b", ("a,", "b")),
        (",a,", ("a",)),
    ],
)
def test_filters_are_texts_between_commas(given: str, texts: tuple[str, ...]) -> None:
    options = parsed("--duplicate_stdout_filters", given, f"--duplicate-stderr-filters={given}")

    assert options.output.filters == Filters(out=texts, err=texts)


def test_output_stays_in_the_run_directory_and_shows_rank_0_unless_asked() -> None:
    output = parsed().output

    assert (output.log_dir, output.filters, output.event_log_handler) == (None, Filters(), "null")
    assert output.console.shows(0, 0) == Std.ALL
    assert output.console.shows(1, 1) == Std.NONE


def test_an_empty_folder_for_logs_is_refused() -> None:
    with pytest.raises(UsageError, match="--log-dir is empty; give a directory"):
        parsed("--log-dir", "")


def test_devices_and_cpus_are_those_of_all_workers_unless_asked() -> None:
    plain, own = parsed().binding, parsed("--virtual-local-rank", "--numa-binding=exclusive").binding

    assert (plain.virtual_local_rank, plain.splits_cpus) == (False, False)
    assert (own.virtual_local_rank, own.splits_cpus) == (True, True)


@pytest.mark.parametrize(
    ("words", "what_to_do"),
    [
        (["--start-method", "fork"], "workers are fresh processes here.*drop it"),
        (["--start-method=forkserver"], "drop it"),
        (["--numa-binding", "node"], "give exclusive, an equal share"),
        (["--signals-to-handle", "SIGTERM,SIGUSR1,SIGCONT"], "SIGCONT: .*name what announces a stop with"),
        (["--signals-to-handle", "SIGNONE"], "--signals-to-handle SIGNONE: expected names"),
        (["--rdzv-backend", "c10d"], "leave --rdzv-backend out"),
        (["--rdzv-backend", "static"], "leave --rdzv-backend out"),
        (["--logs-specs", "mine"], "use --tee, --redirects, --log-dir"),
    ],
)
def test_what_torchrun_takes_and_run_does_not_is_refused_with_what_to_use(
    words: list[str], what_to_do: str
) -> None:
    with pytest.raises(UsageError, match=what_to_do):
        parsed(*words)


def test_signals_that_are_heard_anyway_may_be_named() -> None:
    parsed("--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2")
    parsed("--signals-to-handle=SIGWINCH", "--notice-signal=WINCH")


def test_a_script_by_its_path_is_python_even_beside_no_python() -> None:
    assert not parsed("--run-path", "--no-python").is_program
    assert parsed("--no-python").is_program
