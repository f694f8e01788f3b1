"""The batch script: the template, with the submitter's lines at its mark."""

from __future__ import annotations

import pytest

from hpc_elastic.errors import SubmissionError
from hpc_elastic.submission import script

DIRECTIVES = "#SBATCH --requeue\n#SBATCH --signal=USR2@60 # why\n"
TEMPLATE = f"#!/bin/bash\n{DIRECTIVES}trap x USR2\n\n{script.SETUP_MARK}\n\nrun\n"


def test_the_template_is_found_and_has_the_mark_behind_its_traps() -> None:
    text = script.locate().read_text()

    assert text.count(f"\n{script.SETUP_MARK}\n") == 1
    assert text.index("\ntrap ") < text.index(script.SETUP_MARK) < text.index("HPC_ELASTIC_PYTHON:-")


def test_variables_and_setup_stand_at_the_mark_and_nothing_else_changes() -> None:
    text = script.compose(
        TEMPLATE, {"HPC_ELASTIC_PYTHON": "/my env/python"}, ("module load x", "export A=$B")
    )

    added = ["export HPC_ELASTIC_PYTHON='/my env/python'", "module load x", "export A=$B"]
    lines = text.splitlines()
    at = lines.index(script.SETUP_MARK)
    assert lines[at + 1 : at + 4] == added
    assert "\n".join(lines[: at + 1] + lines[at + 4 :]) + "\n" == TEMPLATE


def test_a_template_without_the_mark_is_refused() -> None:
    with pytest.raises(SubmissionError, match="has no line"):
        script.compose("#!/bin/bash\nrun\n", {}, ())


def test_directives_are_read_by_name() -> None:
    assert script.directives(TEMPLATE) == {"requeue": "--requeue", "signal": "--signal=USR2@60"}
    assert script.directives("#SBATCH --comment='a b' -N 2\n")["comment"] == "--comment=a b"
