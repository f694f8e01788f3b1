"""One mount, in the foreground: `python -m hpc_elastic.testing.passthrough SOURCE MOUNTPOINT FAULTS.json`."""

from __future__ import annotations

import sys
from pathlib import Path

from hpc_elastic.testing.passthrough.faults import MountFaults
from hpc_elastic.testing.passthrough.filesystem import Passthrough


def main(source: Path, mountpoint: Path, control: Path) -> None:
    """Serve until it is unmounted."""
    import mfusepy

    faults = MountFaults.decode(control.read_text())
    options = {
        "fsname": "hpc-elastic-passthrough",
        "default_permissions": True,
        "attr_timeout": faults.attributes_s,
        "entry_timeout": faults.names_s,
        "negative_timeout": faults.missing_names_s,
        # What is opened is read afresh, whatever size the kernel believes in: close-to-open consistency.
        "direct_io": True,
        "hard_remove": True,
    }
    mfusepy.FUSE(Passthrough(source, control), str(mountpoint), foreground=True, **options)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
