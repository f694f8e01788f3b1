"""A private real Slurm on this machine, to rehearse and to test with."""

from __future__ import annotations

from hpc_elastic.testing.sandbox.options import SandboxOptions as SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox as Sandbox

__all__ = ["Sandbox", "SandboxOptions"]
