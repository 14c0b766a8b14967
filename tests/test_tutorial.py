"""The tutorial, word for word: its Python runs, its commands run, and what it shows is what a reader sees."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rulefield.cli.main import app

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(command):
    """Run one command as a reader types it; return what it prints."""
    words = shlex.split(command)
    assert words[0] == "rulefield"
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, (command, result.output, result.exception)
    return result.output


def steps(block):
    """Commands of a block, each with the lines that it shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown.strip()


def pattern_of(shown):
    return ".*".join(re.escape(piece.strip("\n")) for piece in shown.split("..."))


def test_the_tutorial_works_word_for_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, rules = {}, None
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, "tutorial.md", "exec"), names)
        elif kind == "yaml":
            rules = block
        else:
            for command, shown in steps(block):
                printed = run(command)
                assert re.fullmatch(rf"\s*{pattern_of(shown)}\s*", printed, re.DOTALL), (command, printed)
    assert Path("rules.yaml").read_text() == rules, "the file that is shown is the file that is written"
    assert len(names["customers"]) == 300
    assert names["customers"]["city"].notna().mean() > 0.99
    assert names["twice"], "the tutorial shows answers with a field that comes twice"


@pytest.mark.parametrize("link", re.findall(r"\]\((\w+\.md)\)", PAGE.read_text(encoding="utf-8")))
def test_its_links_lead_somewhere(link):
    assert (PAGE.parent / link).is_file()
