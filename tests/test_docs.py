"""Every Python block of README and docs/ runs in the order of its page; every example of a docstring prints what it says.

Blocks of one page share their names, as a reader's session would. A block with ``>>>`` must print what it shows.
"""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import rulefield

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = Path(rulefield.__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def with_blocks():
    """Pages to run; tests/test_tutorial.py runs the tutorial, commands included."""
    return [page for page in PAGES if page.stem != "tutorial" and BLOCK.search(page.read_text(encoding="utf-8"))]


def with_examples():
    return [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def run_block(code, names, where):
    if ">>> " in code:
        example = doctest.DocTestParser().get_doctest(code, names, where, where, 0)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, clear_globs=False)
        names.update(example.globs)
        assert result.failed == 0, where
    else:
        exec(compile(code, where, "exec"), names)


@pytest.mark.parametrize("page", with_blocks(), ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        run_block(match.group(1), names, f"{page.name}, block at line {line}")


@pytest.mark.parametrize("path", with_examples(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_docstring_examples(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = path.relative_to(SOURCE).with_suffix("").parts
    module = importlib.import_module(".".join(["rulefield", *parts]).removesuffix(".__init__"))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_fence_is_closed_and_marked():
    """A block of code without a language would not be run, and nobody would see it."""
    for page in PAGES:
        fences = re.findall(r"^```(\w*)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) % 2 == 0, page.name


CITED = re.compile(r"\[([A-Z][A-Za-z]+\d\d)\]")


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    listed = CITED.findall((ROOT / "docs" / "references.md").read_text(encoding="utf-8"))
    assert len(set(listed)) == len(listed)
    others = [page for page in PAGES if page.name != "references.md"]
    cited = {
        key for path in [*others, *SOURCE.rglob("*.py")] for key in CITED.findall(path.read_text(encoding="utf-8"))
    }
    assert cited == set(listed)
