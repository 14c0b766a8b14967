"""``rulefield rules``: commands about rules files."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Check rules files.")


@app.callback()
def _about() -> None:
    """Work with rules files."""


@app.command(epilog="[b]Example[/b]: rulefield rules check rules.yaml --labels train.conll")
def check(
    rules: Annotated[str, typer.Argument(help="Rules file (YAML).")],
    labels: Annotated[str, typer.Option(help="Labelled file: count the sequences that break each rule.")] = "",
    form: Annotated[str, typer.Option("--format", help="auto (by name), columns or jsonl.")] = "auto",
) -> None:
    """Read a rules file and say what is in it; with labelled data, how often each rule is broken."""
    from rulefield.cli.rule_checks import run_check

    run_check(rules, labels, form)
