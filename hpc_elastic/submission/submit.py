"""`hpc_elastic.submit`: check everything, create the run directory, hand the job to a cluster."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.submission import claim, environment, local_control, nodes_own, read_back
from hpc_elastic.submission.acceptance import Counter
from hpc_elastic.submission.files import JobFile, SubmissionFiles
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.request import SLURM, Options, SubmitRequest
from hpc_elastic.submission.states import JobState
from hpc_elastic.submission.supervisor_files import Plan
from hpc_elastic.workers import payload

_CALL = "hpc_elastic.submission.call"
_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE})


def submit(
    fn: Callable[..., Any] | str | os.PathLike[str],
    *args: Any,
    nodes: int | str,
    nproc_per_node: int | str = "auto",
    cluster: str = "auto",
    run_id: str | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    name: str | None = None,
    max_restarts: int = 3,
    requeue: bool = True,
    pool: bool = False,
    rdzv_backend: str = "auto",
    rdzv_endpoint: str | None = None,
    slurm: Mapping[str, Any] | None = None,
    setup: str | list[str] | None = None,
    python: str | None = None,
    **kwargs: Any,
) -> Job:
    """A job that calls `fn(*args, **kwargs)` in every worker, or runs the script `fn` with `args`.

    `nodes` is a number or a range such as "2:8". With `pool` each node is a job of its own, an element of
    one array, and the run breathes between the two numbers as they come and go. `cluster` is "slurm",
    "local" (this machine, one process tree for each simulated node) or "auto": Slurm where sbatch is
    found, and `slurm`, its options by their long names or submitit's, is used there only. `setup` are
    shell lines to run before the agents, `python` is the interpreter on the nodes (default: this one).
    A `run_dir` whose run has failed or was cancelled is continued, with its checkpoints and its budgets.

    Raises UsageError for a value that cannot be used, before anything is created or started, and
    SubmissionError where the cluster refuses the job. Where Slurm's controller is away, it is tried for two
    minutes; a job that may have been taken is looked for and never sent twice. A RuntimeWarning names what
    the site has made of the job that was not asked for.
    """
    options = Options(
        nodes, nproc_per_node, cluster, run_id, run_dir, name, max_restarts, requeue, pool, rdzv_backend,
        rdzv_endpoint, slurm, setup, python,
    )  # fmt: skip
    request = SubmitRequest.parse(fn, args, kwargs, options)
    return Submission.prepare(request, os.environ, SYSTEM_CLOCK).start()


@dataclass(frozen=True)
class Submission:
    """A checked request, its place, and what is left to do."""

    request: SubmitRequest
    files: SubmissionFiles
    run_id: str
    after_attempt: int
    payload: bytes | None
    environment: Mapping[str, str]
    clock: Clock

    @classmethod
    def prepare(cls, request: SubmitRequest, around: Mapping[str, str], clock: Clock) -> Submission:
        """Check what can be checked, create nothing."""
        packed = None
        if request.function is not None:
            submitted = payload.Payload(request.function, request.args, request.kwargs)
            packed = payload.pack(submitted, payload.search_path())
        if request.cluster == SLURM:
            from hpc_elastic.submission import executor

            executor.check(request)
        run_id = request.run_id or _new_run_id(request.name, clock.utc_now())
        files = SubmissionFiles(request.run_dir or environment.home(around) / run_id)
        if request.cluster == SLURM:
            executor.check_place(files.run_dir)
        RunDirectory.check(files.run_dir)
        earlier = _earlier(files, request)
        return cls(
            request=request,
            files=files,
            run_id=earlier.run_id if earlier else run_id,
            after_attempt=_last_attempt(files),
            payload=packed,
            environment=around,
            clock=clock,
        )

    def start(self) -> Job:
        """Create the run directory and start the job; nothing new is left where that fails."""
        created = [each for each in (self.files.run_dir, self.files.run_dir.parent) if not _exists(each)]
        with self._writable():
            job_id = self._hand_over(created)
        self._read_back(job_id)
        return Job.attach(self.files.run_dir)

    @contextlib.contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as refused:
            if refused.errno not in _NOT_WRITTEN:
                raise
            raise SubmissionError(
                f"nothing is submitted, because {refused.filename or self.files.run_dir} cannot be written "
                f"({refused.strerror}); make room in {self.files.run_dir.parent}, or give another run_dir"
            ) from refused

    def _hand_over(self, created: Sequence[Path]) -> str:
        with _taken_back(created):
            RunDirectory.prepare(self.files.run_dir)
            self.files.folder.mkdir(exist_ok=True)
        with claim.held(self.files.folder):
            _earlier(self.files, self.request)  # another submission may have come first
            with _taken_back(created):
                self._write()
                job_id = self._start_on_slurm() if self.request.cluster == SLURM else self._start_here()
            self._note(job_id)
        return job_id

    def _note(self, job_id: str) -> None:
        about = JobFile(
            cluster=self.request.cluster,
            job_id=job_id,
            run_id=self.run_id,
            name=self.request.name,
            calls_function=self.request.function is not None,
            requeue=self.request.requeue,
            is_pool=self.request.is_pool,
            after_attempt=self.after_attempt,
            submitted_at=self.clock.utc_now(),
        )
        try:
            about.write(self.files.job)
        except OSError as refused:
            raise SubmissionError(
                f"job {job_id} is submitted, but {self.files.job} cannot be written ({refused.strerror}); "
                "cancel the job, or follow it with `hpc-elastic status`"
            ) from refused

    def _write(self) -> None:
        if self.payload is not None:
            payload.write(self.files.payload, self.payload)
        about = self.files.run_dir / "run.json"
        if not about.exists():
            command = ["submit", str(self.request.script or self.request.name), *self.arguments()]
            body = {
                "schema": 1,
                "run_id": self.run_id,
                "name": self.request.name,
                "command": command,
                "line": list(self.arguments()),
                "cwd": str(Path.cwd()),
                "python": environment.ours(self.environment, self.request.python)["HPC_ELASTIC_PYTHON"],
                "setup": list(self.request.setup),
                "max_restarts": self.request.max_restarts,
                "created_at": self.clock.utc_now(),
            }
            payload.write(about, json.dumps(body).encode())

    def _start_on_slurm(self) -> str:
        from hpc_elastic.submission import executor

        if said := nodes_own.doubt(self.files.run_dir, self.environment):
            warnings.warn(said, RuntimeWarning, stacklevel=4)
        # --no-requeue alone may be the site's doing, and is then overruled when the job has to come back.
        stay_ended = {} if self.request.requeue else {"HPC_ELASTIC_REQUEUE": "no"}
        return executor.submit(
            self.request,
            self.files.folder,
            Counter(self.clock),
            arguments=self.arguments(),
            variables={**environment.ours(self.environment, self.request.python), **stay_ended},
            unset=sorted(environment.inherited(self.environment)),
        )

    def _read_back(self, job_id: str) -> None:
        """Warn of what Slurm has made of the job that was not asked for."""
        if self.request.cluster != SLURM:
            return
        needed = 1 if self.request.is_pool else self.request.nodes.min_nodes
        for otherwise in read_back.check(job_id, requeue=self.request.requeue, min_nodes=needed):
            warnings.warn(otherwise, RuntimeWarning, stacklevel=4)

    def _start_here(self) -> str:
        ours = environment.ours(self.environment, self.request.python)
        plan = Plan(
            job_id=f"local-{os.urandom(4).hex()}",
            nodes=self.request.nodes.max_nodes,
            command=(*environment.launcher(ours), "-m", "hpc_elastic", "run", *self.arguments()),
            setup=self.request.setup,
            requeue=self.request.requeue,
        )
        local_control.start(self.files, plan, {**environment.cleaned(self.environment), **ours}, self.clock)
        return plan.job_id

    def arguments(self) -> tuple[str, ...]:
        """What the agents are started with: options of `hpc-elastic run`, then the worker's command."""
        request = self.request
        run_dir = str(self.files.run_dir)
        options = (
            f"--nnodes={request.nodes.text()}",
            f"--nproc-per-node={request.nproc_per_node}",
            f"--max-restarts={request.max_restarts}",
            f"--rdzv-id={self.run_id}",
            f"--run-dir={run_dir}",
            *(("--pool",) if request.is_pool else ()),
            *self._rendezvous(),
        )
        if request.script is not None:
            return (*options, str(request.script), *map(str, request.args))
        return (*options, "--module", _CALL, run_dir)

    def _rendezvous(self) -> tuple[str, ...]:
        """What was said about the meeting place; settings of an etcd come by the environment."""
        request = self.request
        if request.rdzv_endpoint:
            return f"--rdzv-backend={request.rdzv_backend}", f"--rdzv-endpoint={request.rdzv_endpoint}"
        return () if request.rdzv_backend == "auto" else (f"--rdzv-backend={request.rdzv_backend}",)


def _new_run_id(name: str, now: str) -> str:
    """The job's name, the time in digits, and three random bytes: told apart and sorted by people."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "run"
    moment = re.sub(r"\D", "", now.partition("+")[0])
    return f"{slug}-{moment[:8]}-{moment[8:14]}-{os.urandom(3).hex()}"


def _exists(path: Path) -> bool:
    """Whether there is something; what cannot be looked at counts as there."""
    try:
        return os.path.lexists(path)
    except OSError:
        return True


@contextlib.contextmanager
def _taken_back(created: Sequence[Path]) -> Iterator[None]:
    """On a failure remove the run directory, and the home of all runs where that was made as well."""
    try:
        yield
    except BaseException:
        _remove(created)
        raise


def _remove(created: Sequence[Path]) -> None:
    for folder in created[:1]:
        shutil.rmtree(folder, ignore_errors=True)
    for home in created[1:]:
        with contextlib.suppress(OSError):
            home.rmdir()


def _earlier(files: SubmissionFiles, request: SubmitRequest) -> JobFile | None:
    """The job that ran in this directory before, if it may be followed by another."""
    if not os.path.exists(files.job):  # noqa: PTH110 - False, not an error, where nothing may be seen
        return None
    job = Job.attach(files.run_dir)
    state = job.state
    if state is JobState.COMPLETED:
        raise UsageError(
            f"the run in {files.run_dir} is done; read it with Job.attach, or give another run_dir"
        )
    if not state.is_final:
        raise UsageError(
            f"the run in {files.run_dir} is {state.value} as job {job.job_id}; "
            "cancel it first, or give another run_dir"
        )
    if request.run_id not in (None, job.run_id):
        raise UsageError(
            f"run_id={request.run_id!r}, but {files.run_dir} holds the run {job.run_id!r}; leave it out"
        )
    return JobFile.read(files.job)


def _last_attempt(files: SubmissionFiles) -> int:
    from hpc_elastic.status import snapshot

    last = snapshot.read(files.run_dir).last_attempt
    return last.number if last else 0
