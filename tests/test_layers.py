"""Imports only point downward: `plots` → `agent` → `envs` and `moolib`, which do not know each other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "moolib": {"envs", "agent", "plots", "plot", "conf", "tests", "benchmarks"},
    "envs": {"moolib", "agent", "plots", "plot", "tests", "benchmarks"},
    "agent": {"plots", "plot", "tests", "benchmarks"},
    "plots": {"plot", "tests", "benchmarks"},
}


def imported(path):
    """Top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_module_imports_upward(package):
    modules = sorted((ROOT / package).rglob("*.py"))
    assert len(modules) > 5
    upward = [(path.name, name) for path in modules for name in imported(path) if name in FORBIDDEN[package]]
    assert upward == []
