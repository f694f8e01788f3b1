"""Whether `python -m NAME` could find its module, without importing anything of it."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def is_there(name: str) -> bool:
    """Whether there is such a module for a worker, seen from the current directory.

    Only what is certain is false: a package that changes its own search path may find more.
    """
    top, *below = name.split(".")
    if not all((top, *below)):
        return False
    spec = _top(top)
    try:
        for depth, _ in enumerate(below, start=1):
            if spec is None:
                return False
            places = spec.submodule_search_locations or ()
            inside = PathFinder.find_spec(".".join((top, *below[:depth])), list(places))
            if inside is None:
                return _may_do_anything(spec)
            spec = inside
    except KeyError:  # a namespace in a namespace knows its places only once the outer one is imported
        return True
    return spec is not None


def _top(name: str) -> ModuleSpec | None:
    # The current directory first, as `python -m` has it, then whatever finds modules in this process.
    found = PathFinder.find_spec(name, [str(Path.cwd())])
    for finder in sys.meta_path:
        if found is None and hasattr(finder, "find_spec"):
            found = finder.find_spec(name, None)
    return found


def _may_do_anything(spec: ModuleSpec) -> bool:
    """Whether a module may have submodules that its place does not show."""
    try:
        return "__path__" in Path(spec.origin or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return spec.submodule_search_locations is None or spec.origin is not None
