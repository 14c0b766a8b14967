"""Options that several commands share, declared once."""

from typing import Annotated

import typer

Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="auto (by name and content), columns, jsonl, lines, or a format of texts: doccano, label-studio, xml, ...",
        rich_help_panel="Files",
    ),
]
Text = Annotated[
    str | None,
    typer.Option("--text", help="Field that holds the text (Label Studio).", rich_help_panel="Files"),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", help="Column of texts (tables, JSON lines) or of labels (CoNLL-U).", rich_help_panel="Files"
    ),
]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of the files.", rich_help_panel="Files")]
Tokenizer = Annotated[
    str,
    typer.Option(
        "--tokenizer",
        help="Of texts, if the model is no parser: words, fine, whitespace, a regular expression.",
        rich_help_panel="Files",
    ),
]
Apart = Annotated[
    bool,
    typer.Option(
        "--apart",
        help="XML with one element per word: keep neighbors of one label apart.",
        rich_help_panel="Files",
    ),
]
OnInfeasible = Annotated[
    str,
    typer.Option(
        "--on-infeasible",
        help="What happens if nothing obeys the hard rules: raise (stop), relax (break them as little as possible), mark.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 for one per core.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
