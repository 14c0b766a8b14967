"""``rulefield rules``: commands about rules files."""

from typing import Annotated

import typer

from rulefield.cli.options import LearnOptions, Output, ReadOptions, Scheme, Unknown, with_options

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Find, learn and check rules.")

Labeled = Annotated[str, typer.Argument(help="Labeled file: columns (label last), JSON lines, or annotated texts.")]


@app.callback()
def _about() -> None:
    """Work with rules files."""


@app.command(epilog="[b]Example[/b]: rulefield rules check rules.yaml --labels train.conll")
@with_options
def check(
    rules: Annotated[str, typer.Argument(help="Rules file (YAML).")],
    reading: ReadOptions,
    labels: Annotated[str, typer.Option(help="Labeled file: count the sequences that break each rule.")] = "",
) -> None:
    """Read a rules file and say what is in it; with labeled data, how often each rule is broken."""
    from rulefield.cli.rule_commands.finding import run_check

    run_check(rules, labels, reading)


@app.command(epilog="[b]Example[/b]: rulefield rules propose train.conll -o candidates.yaml")
@with_options
def propose(
    file: Labeled,
    reading: ReadOptions,
    output: Output = "-",
    scheme: Scheme = "auto",
    family: Annotated[list[str] | None, typer.Option(help="singleton, pairwise, hierarchy; several times.")] = None,
    min_share: Annotated[float, typer.Option(help="Least share of the sequences in which a rule holds.")] = 0.6,
    unknown: Unknown = None,
) -> None:
    """Write candidate rules by template: how many segments of each type a sequence has. Weights are to be learned."""
    from rulefield.cli.rule_commands.finding import run_propose

    run_propose(file, output, scheme, family or [], min_share, unknown, reading)


@app.command(epilog="[b]Example[/b]: rulefield rules mine train.conll -o rules.yaml --min-confidence 0.95")
@with_options
def mine(
    file: Labeled,
    reading: ReadOptions,
    output: Output = "-",
    scheme: Scheme = "auto",
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="adjacency, precedence, 'state change', begin-end, presence, 'token class'; several times."
        ),
    ] = None,
    min_support: Annotated[int, typer.Option(help="Least number of instances that speak for a rule.")] = 5,
    min_confidence: Annotated[float, typer.Option(help="Least share of its instances for which a rule holds.")] = 0.9,
    learn: Annotated[bool, typer.Option(help="Leave the weights to rulefield rules learn.")] = False,
    unknown: Unknown = None,
) -> None:
    """Write rules about order, neighbors and delimiters that hold in labeled data, with support and confidence."""
    from rulefield.cli.rule_commands.finding import run_mine

    run_mine(file, output, scheme, family or [], min_support, min_confidence, learn, unknown, reading)


@app.command(
    epilog="[b]Examples[/b]: rulefield rules learn model.rf dev.conll -o ruled.rf   |   "
    "rulefield rules learn model.rf dev.conll --rules rules.yaml --method two-stage -o ruled.rf"
)
@with_options
def learn(
    model: Annotated[str, typer.Argument(help="Model file, as written by train.")],
    file: Annotated[str, typer.Argument(help="Labeled file that the model was not trained on.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write: the model with its rules.")],
    options: LearnOptions,
) -> None:
    """Learn on held-out data which rules a model should follow and what breaking them costs; print the report."""
    from rulefield.cli.rule_commands.learning import run_learn

    run_learn(model, file, output, options)
