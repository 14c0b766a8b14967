"""Every public name exists, is documented, and importing the package alone is cheap."""

import inspect
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import rulefield
from rulefield import datasets, metrics, rules
from rulefield.encode import graph_builders, similarity


@pytest.mark.parametrize("name", [n for n in rulefield.__all__ if n != "__version__"])
def test_name_exists_and_is_documented(name):
    assert getattr(rulefield, name).__doc__


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'ChainCFR'"):
        _ = rulefield.ChainCFR


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, rulefield; assert not {'numba', 'sklearn', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_in_the_reference():
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [n for n in rulefield.__all__ if n != "__version__" and not re.search(rf"rulefield\.{n}$", page, re.M)]
    assert missing == []


def test_every_page_is_in_the_index_of_the_site():
    docs = Path(__file__).parent.parent / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    listed = [
        line.strip() for block in re.findall(r"```{toctree}(.*?)```", index, re.S) for line in block.splitlines()
    ]
    pages = {page.stem for page in docs.glob("*.md")} - {"index"}
    assert sorted(p for p in pages if not any(fnmatch(p, line) for line in listed if line)) == []


BRITISH = re.compile(
    "colour|behaviour|neighbour|labell|centre|favour|(normal|optim|regular|general|initial|penal|minim|maxim)is[ei]"
)


def test_public_names_are_spelled_as_scikit_learn_spells():
    modules = (rulefield, rules, metrics, datasets, graph_builders, similarity)
    public = [(name, getattr(module, name)) for module in modules for name in dir(module) if name[0] != "_"]
    members = [
        (name, member) for _, made in public if inspect.isclass(made) for name, member in inspect.getmembers(made)
    ]
    names = {name for name, _ in public + members if name[0] != "_"}
    for _, made in public + members:
        own = str(getattr(made, "__module__", "")).startswith("rulefield")
        if inspect.isfunction(made) or (own and inspect.isclass(made) and not issubclass(made, Exception)):
            names |= set(inspect.signature(made).parameters)
    assert {name for name in names if BRITISH.search(name)} == set()


def test_the_version_is_written_in_one_place():
    root = Path(__file__).parent.parent
    assert re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.M)[1] == rulefield.__version__
    assert 'dynamic = ["version"]' in (root / "pyproject.toml").read_text()
    assert f"## [{rulefield.__version__}]" in (root / "CHANGELOG.md").read_text()
