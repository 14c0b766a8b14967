"""Every public name exists, is documented, and importing the package alone is cheap."""

import inspect
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import rulefield
from rulefield import compat, datasets, formats, graphs, metrics, plots, rules

ROOT = Path(__file__).parent.parent
MODULES = (compat, datasets, formats, graphs, metrics, plots, rules)


def test_the_top_level_is_small():
    names = set(rulefield.__all__) - {module.__name__.removeprefix("rulefield.") for module in MODULES}
    assert len(names) <= 24


def test_docs_and_examples_import_public_modules_only():
    public = {"rulefield", *(module.__name__ for module in MODULES)}
    public |= {"rulefield.exceptions", "rulefield.compat.sklearn_crfsuite", "rulefield.compat.spacy"}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    imports = re.compile(r"^\s*(?:>>> )?(?:from (rulefield[\w.]*) import|import (rulefield[\w.]*))", re.M)
    private = {
        f"{page.name}: {first or second}"
        for page in pages
        for first, second in imports.findall(page.read_text(encoding="utf-8"))
        if (first or second) not in public
    }
    assert private == set()


USER = """
import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, y = make_citations(10, seed=0)
crf = rf.ChainCRF(scheme="BIO", rules=r.count("title") <= 1).fit(X, y)
crf.predict(X, rules=[r.present("title")])
parser = rf.TextParser(model=rf.RuledCRF(estimator=rf.ChainCRF()))
rf.formats.read_documents
{names}
"""
MISTAKES = {
    'rf.ChainCRF(sheme="BIO")': 'Unexpected keyword argument "sheme"',
    "rf.nonsense": 'has no attribute "nonsense"',
    "parser.parse(3)": 'Argument 1 to "parse"',
    "crf.predit(X)": 'has no attribute "predit"',
    "rf.datasets.nonsense": 'has no attribute "nonsense"',
    "rf.RuledCRF(crf=crf)": 'Unexpected keyword argument "crf"',
    'rf.decode_scores([], ["a"], rule=[])': 'Unexpected keyword argument "rule"',
}


def test_type_checkers_see_every_name_and_every_mistake(tmp_path):
    """A user's file without mistakes passes; each mistake is an error on its line."""
    text = USER.format(names="\n".join(f"rf.{name}" for name in rulefield.__all__))
    (tmp_path / "user.py").write_text(text + "\n".join(MISTAKES) + "\n")
    first = text.count("\n") + 1
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--ignore-missing-imports", "user.py"]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "user"), "--follow-imports", "silent"]
    paths = {**os.environ, "MYPYPATH": str(Path(rulefield.__file__).parent.parent)}
    report = subprocess.run([*command, *cache], cwd=tmp_path, env=paths, capture_output=True, text=True).stdout
    errors = [line for line in report.splitlines() if ": error: " in line]
    assert len(errors) == len(MISTAKES), report
    for line, (error, words) in enumerate(zip(errors, MISTAKES.values()), start=first):
        assert error.startswith(f"user.py:{line}: ")
        assert words in error


@pytest.mark.parametrize("name", rulefield.__all__)
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
    missing = [n for n in rulefield.__all__ if not re.search(rf"rulefield\.{n}$", page, re.M)]
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
    "colo[u]r|behavio[u]r|neighbo[u]r|labell|cent[r]e|favo[u]r|(normal|optim|regular|general|initial|penal|minim|maxim)is[ei]"
)


def test_public_names_are_spelled_as_scikit_learn_spells():
    modules = (rulefield, *MODULES)
    public = [(name, getattr(module, name)) for module in modules for name in dir(module) if name[0] != "_"]
    members = [
        (name, member) for _, made in public if inspect.isclass(made) for name, member in inspect.getmembers(made)
    ]
    names = {name for name, _ in public + members if name[0] != "_"}
    for _, made in [(name, made) for name, made in public + members if name[0] != "_"]:
        own = str(getattr(made, "__module__", "")).startswith("rulefield")
        if inspect.isfunction(made) or (own and inspect.isclass(made) and not issubclass(made, Exception)):
            names |= set(inspect.signature(made).parameters)
    assert {name for name in names if BRITISH.search(name)} == set()


def test_the_version_is_written_in_one_place():
    root = Path(__file__).parent.parent
    assert re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.M)[1] == rulefield.__version__
    assert 'dynamic = ["version"]' in (root / "pyproject.toml").read_text()
    assert f"## [{rulefield.__version__}]" in (root / "CHANGELOG.md").read_text()
