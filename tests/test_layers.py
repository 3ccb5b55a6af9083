"""The architecture: layers between packages, no import circles, no private members across files.

An import counts wherever it stands, within a function or under TYPE_CHECKING, too.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "moolib": set(),
    "envs": set(),
    "agent": {"envs", "moolib"},
    "plots": {"agent", "envs"},
    "plot": {"plots"},
    "rigs": {"agent", "envs", "moolib"},
    "benchmarks": {"rigs", "agent", "envs", "moolib"},
    "tests": {"benchmarks", "rigs", "plot", "plots", "agent", "envs", "moolib"},
}
THIRD_PARTY_PRIVATES = {
    "_exit",  # of os: ends a forked process at once
    *("_asdict", "_fields", "_replace"),  # of named tuples: public, kept apart from their fields
    *(
        "_version",
        "_foreach_zero_",
        "_foreach_copy_",
    ),  # of torch: a tensor's changes, one kernel for many tensors
    *("_Options", "options._devices", "options._timeout", "options._threads"),  # of torch's ProcessGroupGloo
}


@cache
def files() -> dict[str, Path]:
    """Every module by its dotted name; a package's is that of its `__init__.py`."""
    found = {}
    for top in MAY_IMPORT:
        paths = [ROOT / f"{top}.py"] if top == "plot" else sorted((ROOT / top).rglob("*.py"))
        for path in paths:
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(files()[module].read_text())


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of this project that a module names in its imports."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in files() else node.module)
    return frozenset(name for name in found if name in files())


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach one another along the arrows."""
    reach = {node: set(targets) for node, targets in arrows.items()}
    for middle in reach:
        for node in reach:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in reach}
    return sorted(sorted(group) for group in groups if group)


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_downward(package):
    inside = [module for module in files() if module.split(".")[0] == package]
    assert len(inside) > 5 or package == "plot"
    arrows = {(module, name) for module in inside for name in imported(module)}
    allowed = MAY_IMPORT[package] | {package}
    assert sorted(arrow for arrow in arrows if arrow[1].split(".")[0] not in allowed) == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_modules_import_in_a_circle(package):
    inside = {module for module in files() if module.split(".")[0] == package}
    assert circles({module: set(imported(module)) & inside for module in inside}) == []


FOLDERS = sorted({name.rpartition(".")[0] for name in files() if "." in name} - {"tests"})


@pytest.mark.parametrize("folder", [name for name in FOLDERS if not name.startswith("tests.")])
def test_no_entries_of_a_folder_import_in_a_circle(folder):
    """An entry is a file or a folder with all that is in it."""

    def entry(module: str) -> str | None:
        if not module.startswith(f"{folder}."):
            return None
        return module[len(folder) + 1 :].split(".")[0]

    arrows: dict[str, set[str]] = {}
    for module in files():
        if (source := entry(module)) is not None:
            targets = {entry(name) for name in imported(module)} - {None, source}
            arrows.setdefault(source, set()).update(targets)
    assert circles(arrows) == []


def test_no_test_module_is_imported():
    """Helpers that tests share are in `rigs`, or in a folder's conftest.py."""
    arrows = [(module, name) for module in files() for name in imported(module)]
    assert [arrow for arrow in arrows if arrow[1].rpartition(".")[2].startswith("test_")] == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined(module: ast.Module) -> Iterator[str]:
    """The private names that a file gives to its own functions, classes, fields and attributes."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            yield from ast.literal_eval(node.value)


def is_own(node: ast.expr) -> bool:
    """Whether an expression is `self`, `cls` or `super()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def foreign_privates(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and name of each private member of another file that a file uses."""
    own = set(defined(module)) | set(THIRD_PARTY_PRIVATES)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            if node.attr not in own and ast.unparse(node) not in own:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module in files():
            yield from ((node.lineno, alias.name) for alias in node.names if is_private(alias.name))


def test_foreign_privates_are_found():
    source = """
from moolib.broker import _serve
class A:
    def __init__(self, other):
        self._mine, other._theirs = 1, self._inherited
    def same(self, other):
        return self._mine == other._mine and super()._base
"""
    assert list(foreign_privates(ast.parse(source))) == [(2, "_serve"), (5, "_theirs")]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_file_touches_the_private_members_of_another(package):
    found = [
        f"{files()[module].relative_to(ROOT)}:{line}: {name}"
        for module in files()
        if module.split(".")[0] == package
        for line, name in foreign_privates(tree(module))
    ]
    assert found == []
