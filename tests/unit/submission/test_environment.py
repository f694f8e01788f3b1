"""What a submission hands on from the environment it is made in."""

from __future__ import annotations

import sys
from pathlib import Path

from hpc_elastic.submission import environment

ROOT = Path(__file__).resolve().parents[3]


def test_inside_a_job_its_variables_are_taken_away_and_the_cluster_stays() -> None:
    around = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPU_BIND": "quiet",
        "SBATCH_NO_REQUEUE": "1",
        "PMI_RANK": "0",
        "SLURM_CONF": "/etc/slurm.conf",
        "HOME": "/home/u",
    }

    assert environment.cleaned(around) == {"SLURM_CONF": "/etc/slurm.conf", "HOME": "/home/u"}


def test_outside_a_job_the_users_defaults_for_sbatch_stay() -> None:
    around = {"SBATCH_ACCOUNT": "a", "SLURM_CLUSTERS": "c"}

    assert environment.cleaned(around) == around


def test_a_worker_that_submits_does_not_pass_on_who_it_is() -> None:
    around = {"HPC_ELASTIC_PAGE": "3:x", "HPC_ELASTIC_RUN_DIR": "/r", "HPC_ELASTIC_HOME": "/h"}

    assert environment.cleaned(around) == {"HPC_ELASTIC_HOME": "/h"}


def test_where_an_etcd_is_and_how_to_log_in_is_passed_on() -> None:
    around = {"HPC_ELASTIC_ETCD": "h:1", "HPC_ELASTIC_ETCD_PASSWORD_FILE": "/p", "HPC_ELASTIC_RUN_ID": "r"}

    assert environment.inherited(around) == {"HPC_ELASTIC_RUN_ID"}


def test_a_checkout_is_put_in_front_of_the_import_path() -> None:
    ours = environment.ours({"PYTHONPATH": f"/a:{ROOT}:/b"}, None)

    assert ours["HPC_ELASTIC_PYTHON"] == sys.executable
    if environment.checkout() is not None:
        assert ours["PYTHONPATH"] == f"{ROOT}:/a:/b"
    assert environment.ours({}, "/opt/python")["HPC_ELASTIC_PYTHON"] == "/opt/python"


def test_what_starts_python_on_the_nodes_is_handed_on_whatever_sbatch_exports() -> None:
    ours = environment.ours({"HPC_ELASTIC_LAUNCH_PREFIX": "apptainer exec a.sif"}, "python3")

    assert environment.launcher(ours) == ("apptainer", "exec", "a.sif", "python3")
    assert environment.launcher(environment.ours({}, "python3")) == ("python3",)


def test_runs_lie_in_the_home_or_where_one_submits() -> None:
    assert environment.home({"HPC_ELASTIC_HOME": "/scratch/u"}) == Path("/scratch/u")
    assert environment.home({}) == Path.cwd() / "hpc_elastic_runs"
