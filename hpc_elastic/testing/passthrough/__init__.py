"""A directory seen through a file system with faults: FUSE mounts that cache, lose replies and refuse locks.

`mount.mounted(source, mountpoint, faults)` is what a test takes. It needs root or a setuid
`fusermount3` (Debian: fuse3) and `mfusepy` (PyPI).
"""

from __future__ import annotations
