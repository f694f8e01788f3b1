"""The rules that no linter knows: budgets, words, and who may do what. Layers are in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = sorted((ROOT / "hpc_elastic").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted(path for name in ("benchmarks", "examples", "tools") for path in (ROOT / name).rglob("*.py"))

FILE_LINES = 250
FUNCTION_LINES = 40
VAGUE = {"common", "core", "helper", "helpers", "manager", "misc", "util", "utils"}
VAGUE_VERBS = {"do", "handle"}
# Imported by nothing at the top of a module: pytest loads the one, `submit` the other when it is called.
BESIDE_THE_AGENT = {
    "hpc_elastic/submission/executor.py",
    "hpc_elastic/testing/contracts/backend.py",
    "hpc_elastic/testing/contracts/store.py",
    "hpc_elastic/testing/pytest_plugin.py",
}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|for now|placeholder)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path, node: ast.AST | None = None) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def lines_of_docstring(node: ast.AST) -> int:
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body:
        return 0
    first = body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return 0
    if not isinstance(first.value.value, str):
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def lines_without_docstrings(path: Path) -> int:
    """Blank lines do not count either: air costs nobody anything."""
    promises = sum(lines_of_docstring(node) for node in ast.walk(tree(path)))
    return sum(1 for line in path.read_text(encoding="utf-8").splitlines() if line.strip()) - promises


def lines_of_code(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1 - lines_of_docstring(function)


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[tuple[ast.AST, str]]:
    """Each import among `nodes` as (node, dotted module)."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Each call in a file as (node, dotted text of what is called)."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def test_a_file_stays_under_its_budget_of_lines() -> None:
    long = [
        f"{place(path)}: {lines} lines"
        for path in PACKAGE + TESTS + SCRIPTS
        if (lines := lines_without_docstrings(path)) > FILE_LINES
    ]

    assert not long, (
        f"more than {FILE_LINES} lines without docstrings; split by what it is about:\n" + "\n".join(long)
    )


def test_a_function_stays_under_its_budget_of_lines() -> None:
    long = [
        f"{place(path, function)} {function.name}: {lines} lines"
        for path in PACKAGE + TESTS + SCRIPTS
        for function in functions(path)
        if (lines := lines_of_code(function)) > FUNCTION_LINES
    ]

    assert not long, f"more than {FUNCTION_LINES} lines without the docstring:\n" + "\n".join(long)


def test_only_the_command_line_and_what_runs_beside_it_print() -> None:
    """`bootstrap` stands in for the Python interpreter, and so does for its messages."""
    speaking = ("hpc_elastic/cli/", "hpc_elastic/testing/", "hpc_elastic/workers/bootstrap.py")
    prints = [
        place(path, node)
        for path in PACKAGE
        if not place(path).startswith(speaking)
        for node, called in calls(path)
        if called == "print"
    ]

    assert not prints


def test_third_party_packages_are_imported_only_where_they_are_used() -> None:
    """At the top of a module only the standard library and this package: the agent must start fast."""
    early = [
        f"{place(path, node)} {module}"
        for path in PACKAGE
        for node, module in imported(tree(path).body)
        if module.partition(".")[0] not in {*sys.stdlib_module_names, "hpc_elastic"}
        if place(path).split(":")[0] not in BESIDE_THE_AGENT
    ]

    assert not early


def test_what_a_training_script_imports_is_the_standard_library_and_the_page() -> None:
    path = ROOT / "hpc_elastic" / "worker.py"
    modules = {module for _, module in imported(ast.walk(tree(path)))}

    assert {module for module in modules if module.startswith("hpc_elastic")} <= {"hpc_elastic.workers.page"}
    assert {module.partition(".")[0] for module in modules} <= {*sys.stdlib_module_names, "hpc_elastic"}


def test_every_module_says_what_it_is_and_postpones_its_annotations() -> None:
    wrong = [
        place(path)
        for path in PACKAGE + TESTS + SCRIPTS
        if tree(path).body
        if ast.get_docstring(tree(path)) is None
        or (len(tree(path).body) > 1 and "__future__" not in {name for _, name in imported(tree(path).body)})
    ]

    assert not wrong


def test_modules_and_functions_have_names_that_say_something() -> None:
    vague = [place(path) for path in PACKAGE + TESTS if VAGUE & set(path.stem.lower().split("_"))]
    vague += [
        f"{place(path, function)} {function.name}"
        for path in PACKAGE
        for function in functions(path)
        if VAGUE & set(function.name.split("_")) or function.name.split("_")[0] in VAGUE_VERBS
    ]

    assert not vague


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{place(path)} {found.group()}"
        for path in [*PACKAGE, *TESTS, *SCRIPTS, *(ROOT / "sbatch").glob("*.sh")]
        if path != Path(__file__)
        if (found := UNFINISHED.search(path.read_text(encoding="utf-8")))
    ]

    assert not left


def test_tests_wait_for_conditions_and_never_for_time() -> None:
    sleeping = [
        f"{place(path, node)} {called}"
        for path in TESTS
        for node, called in calls(path)
        if called in {"time.sleep", "time.time", "sleep"}
    ]

    assert not sleeping, "take tests.waiting.wait_until"


def test_tests_drive_fakes_and_patch_nothing() -> None:
    patching = [
        f"{place(path, node)} {module}"
        for path in TESTS
        for node, module in imported(ast.walk(tree(path)))
        if module.startswith("unittest")
    ]
    patching += [
        f"{place(path, node)} {called}"
        for path in TESTS
        for node, called in calls(path)
        if called in {"monkeypatch.setattr", "monkeypatch.setitem", "monkeypatch.delattr"}
    ]

    assert not patching, "monkeypatch is for the environment of a child process only"


def test_unit_tests_start_no_process_and_open_no_connection() -> None:
    heavy = [
        f"{place(path, node)} {module}"
        for path in TESTS
        if place(path).startswith("tests/unit/")
        for node, module in imported(ast.walk(tree(path)))
        if module in {"multiprocessing", "socket", "subprocess"}
    ]

    assert not heavy


def test_the_name_of_a_test_is_a_sentence() -> None:
    short = [
        f"{place(path, function)} {function.name}"
        for path in TESTS
        for function in functions(path)
        if function.name.startswith("test_") and len(function.name.split("_")) < 4
    ]

    assert not short
