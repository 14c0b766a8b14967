"""The word lists of the generators, read from ``words.txt`` beside this file."""

from functools import cache
from importlib.resources import files


@cache
def word_lists() -> dict[str, list[str]]:
    """All lists by name; an entry may have several words."""
    text = files("rulefield.datasets").joinpath("words.txt").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            lists[name] = []
        elif line and not line.startswith("#"):
            lists[name] += [entry.strip() for entry in line.split(";") if entry.strip()]
    return lists


def __getattr__(name: str) -> list[str]:
    if name in word_lists():
        return word_lists()[name]
    raise AttributeError(f"there is no word list {name!r}")
