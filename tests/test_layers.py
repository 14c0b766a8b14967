"""Imports point down only: a package imports packages with a smaller number, never a sibling of its level."""

import ast
from pathlib import Path

import pytest

import rulefield

LEVELS = {
    "exceptions": -1,
    "data": 0,
    "kernels": 0,
    "problem": 1,
    "encode": 1,
    "persistence": 1,
    "metrics": 2,
    "inference": 3,
    "models": 3,
    "rules": 3,
    "learning": 4,
    "datasets": 5,
    "report": 5,
    "estimators": 6,
    "cli": 7,
    "__main__": 8,
}
ROOT = Path(rulefield.__file__).parent


def modules():
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield "(relative import)"
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rulefield":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "rulefield" and len(parts) > 1:
                    yield parts[1]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    here = package_of(path)
    for there in imported_packages(path):
        assert there == here or LEVELS[there] < LEVELS[here], f"{path.name} ({here}) imports {there}"


def test_every_package_has_a_level():
    assert {package_of(p) for p in modules()} <= set(LEVELS)
