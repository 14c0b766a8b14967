"""Labeled text in color, for terminals."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from rulefield.encode.schemes import OUTSIDE

_COLORS = ["cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green", "bright_yellow"]
_COLORS += ["bright_magenta", "bright_blue", "bright_red", "white", "grey70"]


class Palette:
    """A color for each segment type, always the same in one run."""

    def __init__(self, types: Iterable[str]):
        self.colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(dict.fromkeys(types))}

    def style(self, name: str) -> str:
        """Return the style of a type; outside text is dim."""
        return "dim" if name == OUTSIDE else self.colors.get(name, "white")

    def legend(self) -> Text:
        """Write all types in their colors."""
        text = Text()
        for name in self.colors:
            text.append(f" {name} ", style=f"reverse {self.style(name)}")
            text.append(" ")
        return text

    def painted(self, text: str, spans: Iterable[Any]) -> Text:
        """Write a text with its spans (start, end, label) in color."""
        line, at = Text(), 0
        for start, end, label in spans:
            line.append(text[at:start], style="dim")
            line.append(text[start:end], style=f"reverse {self.style(label)}")
            at = end
        return line.append(text[at:], style="dim")


def console(to_error: bool = False) -> Console:
    """Return a console that wraps nothing when its output goes to a file."""
    terminal = Console(stderr=to_error, highlight=False)
    return terminal if terminal.is_terminal else Console(stderr=to_error, highlight=False, width=200, soft_wrap=True)
