"""Every Python block of README and docs/ runs in the order of its page; every example of a docstring prints what it says.

Blocks of one page share their names, as a reader's session would. A block with ``>>>`` must print what it shows.
"""

import doctest
import importlib
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rulefield
from rulefield.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = Path(rulefield.__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
STEPS = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
DOCS = ROOT / "docs"


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


def run_commands(block):
    """Run the commands of a block; a page of docs/howto writes the files that they name."""
    for command in re.findall(r"^\$ rulefield (.*)$", block, re.MULTILINE):
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, (command, done.output, done.exception)


@pytest.mark.parametrize("page", with_blocks(), ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    text = page.read_text(encoding="utf-8")
    for match in STEPS.finditer(text):
        line = text[: match.start()].count("\n") + 1
        if match.group(1) == "python":
            run_block(match.group(2), names, f"{page.name}, block at line {line}")
        elif page.parent.name == "howto":
            run_commands(match.group(2))


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


# --- pages by purpose -------------------------------------------------------------------------------

REFERENCE = {
    "rules",
    "cli",
    "formats",
    "features",
    "files",
    "errors",
    "glossary",
    "api",
    "references",
    "architecture",
}
MOST_WORDS = 1200
WRITTEN_ELSEWHERE = {"papers"}  # its tables are made from the results, as those of the benchmarks
MEASURED = re.compile(
    r"20\d\d-\d\d-\d\d|CPU[- ]s\b|\d ?x (?:its|faster|slower|as)\b|[+-]\.\d\d|\d times (?:as|faster)|F1 (?:of )?\.?\d|\d MB\b"
)
MOST_FIGURES = 2


def pages_but(*left_out):
    return [page for page in PAGES if page.stem not in {"README", "benchmarks"}.union(*left_out)]


def test_pages_are_short():
    """Prose without code; reference pages may be longer."""
    long = {page.stem: len(CODE.sub("", page.read_text(encoding="utf-8")).split()) for page in pages_but(REFERENCE)}
    assert {stem: n for stem, n in long.items() if n > MOST_WORDS and stem not in WRITTEN_ELSEWHERE} == {}


def test_figures_are_measured_in_one_place():
    found = {page.stem: MEASURED.findall(CODE.sub("", page.read_text(encoding="utf-8"))) for page in pages_but()}
    assert {s: f for s, f in found.items() if len(f) > MOST_FIGURES and s not in WRITTEN_ELSEWHERE} == {}


def test_the_benchmarks_page_is_what_the_results_say():
    table = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == table["page_of"](results)
    papers = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert papers == table["papers_of"](papers, results)
    for entry in results.values():
        script = entry["script"].split()[0]
        assert not script.startswith("benchmarks/") or (ROOT / script).is_file(), script


def test_recorded_figures_are_shown(capsys):
    table = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))
    entry = {"what": "w", "value": "old", "script": "s", "template": "{ratio:.1f}x"}
    entries = {"e": entry}
    table["record"](entries, "e", 'noise\n{"ratio": 2.51}\n', "idle")
    assert "| 2.5x |" in table["page_of"](entries)
    assert entry["machine"] == "idle"


def test_rows_stand_beside_the_paper_s():
    table = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))
    rows = {"chain": {"tokens": 95.5}, "rules": {"tokens": 96.0}}
    figures = {"rows": rows, "paper": {"chain": 94.0, "rules": 97.0, "theirs": 93.0}}
    entries = {"e": {"what": "w", "script": "s", "paper": "Key14", "figures": figures}}
    marks = "<!-- figures of Key14, made by benchmarks/table.py -->\nold\n<!-- end -->"
    page = table["papers_of"](marks, entries)
    assert "| rules | 96 | 97.0 |\n| chain | 95.5 | 94.0 |" in page
    assert "| theirs | - | 93.0 |" in page
    assert "old" not in page
    assert table["papers_of"](page, entries) == page


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^[a-z_/]+$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {
        str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "gallery" not in page.parts
    }
    assert set(listed) - {"gallery/index"} == pages - {"index"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        assert (page.parent / link).exists(), link


def test_the_commands_of_the_readme_run_in_the_folder_of_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    done = CliRunner().invoke(app, ["demo", "--n", "20", "--jobs", "1"])
    assert done.exit_code == 0, (done.output, done.exception)
    monkeypatch.chdir(tmp_path)
    few = Path("test.jsonl").read_text().splitlines(keepends=True)[:30]
    Path("test.jsonl").write_text("".join(few))
    (block,) = re.findall(
        r"^```\n(rulefield train.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert [words[0] for words in commands] == ["train", "parse", "evaluate", "report", "serve"]
    for words in commands[:-1]:
        done = CliRunner().invoke(app, words if words[0] != "train" else [*words, "--l2", "1", "--l1", "0"])
        assert done.exit_code == 0, (words, done.output, done.exception)
    assert (tmp_path / commands[-1][-1]).is_file()


def test_the_command_line_page_names_every_command_and_every_option_of_train():
    import typer.main

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app)
    assert [name for name in command.commands if f"`{name}" not in page and f", `{name}" not in page] == []
    options = [
        option for parameter in command.commands["train"].params for option in parameter.opts if option[:2] == "--"
    ]
    assert [option for option in options if option not in page] == []
