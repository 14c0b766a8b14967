"""American spelling and plain words in code, docs, tests and benchmarks.

A pattern has one letter in brackets, so that this file does not break its own rule.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BRITISH = (
    r"labe[l]ling|labe[l]led|neigh[b]our|col[o]ur|behavi[o]ur|cen[t]re\b|favo[u]r|programm[e]\b|"
    r"(normal|optim|regular|general|initial|penal|minim|maxim|character|canonical|serial|token)i[s](e|ed|es|ing|ation|er)\b"
)
METAPHORS = (
    r"\bmen[d](s|ed|ing)?\b|\bspoi[l](s|ed|ing)?\b|\bstrange[r]s?\b|\bpou[r](s|ed|ing)?\b|\buncollecte[d]\b|"
    r"\bdea[r](er|est)?\b"
)


def texts():
    """Yield every file that people read, with its text."""
    folders = ["src", "docs", "tests", "benchmarks", "examples"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    for path in files:
        if path.suffix in {".py", ".md", ".html", ".js", ".css", ".txt", ".yaml"} and "gallery" not in path.parts:
            yield path, path.read_text(encoding="utf-8")


def places(pattern):
    found = re.compile(pattern, re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for path, text in texts()
        for match in found.finditer(text)
    ]


def test_spelling_is_american():
    assert places(BRITISH) == []


def test_words_are_plain():
    assert places(METAPHORS) == []
