"""``rulefield rules``: commands about rules files."""

from typing import Annotated

import typer

from rulefield.cli.options import Apart, Column, Encoding, Format, Jobs, Quiet, Text, Tokenizer

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Find, learn and check rules.")

Labeled = Annotated[str, typer.Argument(help="Labeled file: columns (label last), JSON lines, or annotated texts.")]
RulesOutput = Annotated[str, typer.Option("--output", "-o", help="Rules file to write; standard output by default.")]
Scheme = Annotated[str, typer.Option(help="auto, none, BIO, IOB1, BIOES, BILOU, IOE1 or IOE2.")]
Unknown = Annotated[str | None, typer.Option(help="Label that means: not annotated.")]


@app.callback()
def _about() -> None:
    """Work with rules files."""


@app.command(epilog="[b]Example[/b]: rulefield rules check rules.yaml --labels train.conll")
def check(
    rules: Annotated[str, typer.Argument(help="Rules file (YAML).")],
    labels: Annotated[str, typer.Option(help="Labeled file: count the sequences that break each rule.")] = "",
    form: Format = "auto",
    text: Text = None,
    column: Column = None,
    encoding: Encoding = "utf-8-sig",
    tokenizer: Tokenizer = "auto",
    apart: Apart = False,
) -> None:
    """Read a rules file and say what is in it; with labeled data, how often each rule is broken."""
    from rulefield.cli.reading import Reading
    from rulefield.cli.rule_commands.finding import run_check

    run_check(rules, labels, Reading(form, text, column, encoding, tokenizer, apart))


@app.command(epilog="[b]Example[/b]: rulefield rules propose train.conll -o candidates.yaml")
def propose(
    file: Labeled,
    output: RulesOutput = "-",
    scheme: Scheme = "auto",
    family: Annotated[list[str] | None, typer.Option(help="singleton, pairwise, hierarchy; several times.")] = None,
    min_share: Annotated[float, typer.Option(help="Least share of the sequences in which a rule holds.")] = 0.6,
    unknown: Unknown = None,
    form: Format = "auto",
    text: Text = None,
    column: Column = None,
    encoding: Encoding = "utf-8-sig",
    tokenizer: Tokenizer = "auto",
    apart: Apart = False,
) -> None:
    """Write candidate rules by template: how many segments of each type a sequence has. Weights are to be learned."""
    from rulefield.cli.reading import Reading
    from rulefield.cli.rule_commands.finding import run_propose

    run_propose(
        file,
        output,
        scheme,
        family or [],
        min_share,
        unknown,
        Reading(form, text, column, encoding, tokenizer, apart),
    )


@app.command(epilog="[b]Example[/b]: rulefield rules mine train.conll -o rules.yaml --min-confidence 0.95")
def mine(
    file: Labeled,
    output: RulesOutput = "-",
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
    form: Format = "auto",
    text: Text = None,
    column: Column = None,
    encoding: Encoding = "utf-8-sig",
    tokenizer: Tokenizer = "auto",
    apart: Apart = False,
) -> None:
    """Write rules about order, neighbors and delimiters that hold in labeled data, with support and confidence."""
    from rulefield.cli.reading import Reading
    from rulefield.cli.rule_commands.finding import run_mine

    run_mine(
        file,
        output,
        scheme,
        family or [],
        min_support,
        min_confidence,
        learn,
        unknown,
        Reading(form, text, column, encoding, tokenizer, apart),
    )


@app.command(
    epilog="[b]Examples[/b]: rulefield rules learn model.rf dev.conll -o ruled.rf   |   "
    "rulefield rules learn model.rf dev.conll --rules rules.yaml --method two-stage -o ruled.rf"
)
def learn(
    model: Annotated[str, typer.Argument(help="Chain model, as written by train.")],
    file: Annotated[str, typer.Argument(help="Labeled file that the model was not trained on.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write: the chain with its rules.")],
    rules: Annotated[str, typer.Option(help="Rules file, propose (by template), mine, or find (both).")] = "find",
    method: Annotated[str, typer.Option(help="soft (learned weights) or two-stage.")] = "soft",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    unknown: Unknown = None,
    form: Format = "auto",
    text: Text = None,
    column: Column = None,
    encoding: Encoding = "utf-8-sig",
    tokenizer: Tokenizer = "auto",
    apart: Apart = False,
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Learn on held-out data which rules a chain should follow and what breaking them costs; print the report."""
    from rulefield.cli.reading import Reading
    from rulefield.cli.rule_commands.learning import LearnOptions, run_learn

    reading = Reading(form, text, column, encoding, tokenizer, apart)
    options = LearnOptions(rules, method, seed, unknown, reading, jobs)
    run_learn(model, file, output, options, quiet)
