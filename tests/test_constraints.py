"""The versions that .ci/run installs: every requirement is pinned to one that pyproject.toml allows."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def test_every_requirement_is_pinned_to_a_version_that_is_allowed():
    lines = (ROOT / ".ci" / "constraints.txt").read_text().split()
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *extras["dev"],
        *extras["docs"],
    ]
    for requirement in map(Requirement, asked):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} has no version in .ci/constraints.txt: make constraints"
        assert requirement.specifier.contains(version), f"{requirement} does not allow {version}: make constraints"


def test_the_landing_check_installs_them():
    assert 'PIP_CONSTRAINT="$PWD/.ci/constraints.txt"' in (ROOT / ".ci" / "run").read_text()
