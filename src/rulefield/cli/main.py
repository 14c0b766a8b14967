"""The command line: train, predict, parse, convert, evaluate, report, next, serve, inspect, prove, verify, demo, rules, ...

Commands only declare their options here and import their work when they run, so that ``--help`` is quick.
"""

import _thread
import atexit
import gc
import os
import signal
import sys
import time
import warnings
from typing import Annotated

import typer

from rulefield.cli.options import (
    File,
    FileOptions,
    Jobs,
    ModelFile,
    OnInfeasible,
    Output,
    PredictOptions,
    Quiet,
    ReadOptions,
    Rules,
    Scoring,
    TrainOptions,
    with_options,
)
from rulefield.cli.rules import app as rules_app
from rulefield.exceptions import RulefieldError

AGAIN_SECONDS = 0.1

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(rules_app, name="rules")


def _show_version(wanted: bool) -> None:
    if wanted:
        import rulefield

        typer.echo(f"rulefield {rulefield.__version__}")
        raise typer.Exit


def _configured(context: typer.Context, path: str | None) -> str | None:
    """Take options that are not on the command line from a file."""
    if path is not None:
        from rulefield.cli.texts.config import read_config

        known = {str(parameter.name) for parameter in context.command.params} - {"config"}
        context.default_map = {**(context.default_map or {}), **read_config(path, known)}
    return path


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Label sequences with conditional random fields that follow your rules."""


Config = Annotated[
    str | None,
    typer.Option(
        help="YAML file of options (`l2: 0.3`); what the command line says counts.",
        callback=_configured,
        is_eager=True,
    ),
]


@app.command(
    epilog="[b]Examples[/b]: rulefield train train.conll -o chunks.rf --scheme BIO   |   "
    "rulefield train data.jsonl -o m.rf --l1 0.1 --dev dev.jsonl   |   "
    "rulefield train scattered.conll -o joint.rf --tasks ner=3,pos=1 --expect expectations.yaml   |   "
    "rulefield train large-*.conll.gz -o m.rf --corpus parts/   |   "
    "rulefield train pages/*.xml -o table.rf   |   "
    "rulefield train export.json -o notes.rf   |   "
    "rulefield train --config run.yaml   |   "
    "rulefield train marked.conll -o names.rf --initial-label O --expect expectations.yaml"
)
@with_options
def train(
    model: Annotated[str, typer.Option("--output", "-o", help="Model file to write.")],
    options: TrainOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Labeled files: columns (label last), JSON lines, texts as annotation tools export them, or pages."
        ),
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Held-out file, scored at the end.")] = None,
    config: Config = None,
) -> None:
    """Learn a model from labeled sequences, or a parser from annotated texts."""
    from rulefield.cli.training import run_train

    run_train(files or [], model, dev, options)


@app.command(
    epilog="[b]Examples[/b]: rulefield predict chunks.rf new.conll > labeled.conll   |   "
    "rulefield predict m.rf new.jsonl -o out.jsonl --kbest 3 --rules rules.yaml   |   "
    "rulefield predict table.rf new/*.xml -o labeled/"
)
@with_options
def predict(
    model: ModelFile,
    options: PredictOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Columns, JSON lines or texts of any format, - for standard input; or files of pages."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write (pages: a folder); standard output by default.")
    ] = "-",
) -> None:
    """Label new sequences (adds a last column, or the key "labels") or texts, and write them back as they came."""
    from rulefield.cli.prediction import run_predict

    run_predict(model, files or ["-"], output, options)


@app.command(
    epilog="[b]Examples[/b]: rulefield evaluate test.conll chunks.rf   |   "
    "rulefield evaluate labeled.conll   (gold and predicted labels in the last two columns)"
)
@with_options
def evaluate(
    file: File,
    scoring: Scoring,
    reading: ReadOptions,
    model: Annotated[
        str | None, typer.Argument(help="Model that predicts; without it, predictions are read.")
    ] = None,
    rules: Rules = None,
    jobs: Jobs = -1,
) -> None:
    """Score predictions: spans of texts; segments as conlleval counts them, tokens, whole sequences."""
    from rulefield.cli.evaluation import run_evaluate

    run_evaluate(file, model, rules, scoring, reading, jobs)


@app.command(
    epilog="[b]Examples[/b]: rulefield report chunks.rf test.conll -o report.html   |   "
    "rulefield report old.rf new.rf test.conll -o compared.html"
)
@with_options
def report(
    files: Annotated[list[str], typer.Argument(help="MODEL TEST, or OLD NEW TEST to compare two models.")],
    reading: ReadOptions,
    output: Annotated[str, typer.Option("--output", "-o", help="Page to write.")] = "report.html",
    rules: Rules = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Write one page about a model: scores with intervals, errors, calibration, what each rule does, hard cases."""
    from rulefield.cli.pages.report import run_report

    run_report(files, output, rules, title, reading, jobs, quiet)


@app.command(
    "next",
    epilog="[b]Examples[/b]: rulefield next m.rf pool.jsonl -n 25 -o batch.jsonl   |   "
    "rulefield next parser.rf texts.txt -n 25 -o tasks.json --to label-studio",
)
@with_options
def choose_next(
    model: ModelFile,
    pool: Annotated[str, typer.Argument(help="Unlabeled data: columns or JSON lines; of a parser, texts.")],
    reading: ReadOptions,
    output: Output = "-",
    n: Annotated[int, typer.Option("-n", help="How many to choose.")] = 25,
    rules: Rules = None,
    to: Annotated[str, typer.Option(help="Format to write (of a parser): label-studio, doccano, ...")] = "auto",
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Choose what to label next: least certain, unlike each other, with the model's labels and their probabilities."""
    from rulefield.cli.pages.next import run_next

    run_next(model, pool, output, n, rules, reading, to, jobs, quiet)


@app.command(
    epilog="[b]Examples[/b]: rulefield serve citations.rf --data dev.conll   |   "
    "rulefield serve new.rf --data texts.csv --labels number,street,city,zip   (no model yet)"
)
@with_options
def serve(
    model: ModelFile,
    reading: ReadOptions,
    data: Annotated[
        str | None, typer.Option(help="Texts or sequences to walk through, with gold labels or without.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address; any but this machine's own needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.")] = 8000,
    token: Annotated[str | None, typer.Option(help="What clients must send (Authorization: Bearer TOKEN).")] = None,
    corrections: Annotated[
        str, typer.Option(help="JSON lines to which corrections are added.")
    ] = "corrections.jsonl",
    labels: Annotated[
        str | None,
        typer.Option(help="Names of labels, city,street,zip: begin without a model, which is then written."),
    ] = None,
) -> None:
    """Open the workbench: a page on this machine with a text, its labels and the rules, and a JSON API."""
    from rulefield.cli.pages.serve import run_serve

    run_serve(model, data, host, port, token, corrections, labels, reading)


@app.command(
    epilog="[b]Examples[/b]: rulefield inspect m.rf --top 5 --label B-title   |   "
    'rulefield inspect m.rf --explain "Ada Lovelace 1843"'
)
def inspect(
    model: ModelFile,
    top: Annotated[int, typer.Option(help="How many weights to show for each label.")] = 8,
    label: Annotated[list[str] | None, typer.Option(help="Only these labels.")] = None,
    explain: Annotated[str | None, typer.Option(help="Tokens, separated by spaces: why these labels?")] = None,
) -> None:
    """Show what a model holds, or why it labels something as it does."""
    from rulefield.cli.inspection import run_inspect

    run_inspect(model, top, label or [], explain)


@app.command(
    epilog='[b]Examples[/b]: rulefield parse addresses.rf "59 ST JAMES PLACE NEW YORK NY 10038"   |   '
    "rulefield parse addresses.rf in.csv --column address -o out.csv   |   tail -f log | rulefield parse lines.rf -"
)
@with_options
def parse(
    model: ModelFile,
    reading: ReadOptions,
    source: Annotated[
        str, typer.Argument(help="A text in quotes, or a file: lines, .csv, .tsv, .jsonl; - for lines as they come.")
    ] = "-",
    output: Output = "-",
    rules: Rules = None,
    spans: Annotated[bool, typer.Option(help="Also write every span with its place and probability (JSON).")] = False,
    on_infeasible: OnInfeasible = "mark",
    jobs: Jobs = -1,
) -> None:
    """Cut texts into fields, with probabilities and broken rules; tables keep their columns and get one per field."""
    from rulefield.cli.texts.parsing import run_parse

    run_parse(model, source, output, rules, reading, spans, on_infeasible, jobs)


@app.command(
    epilog="[b]Examples[/b]: rulefield convert export.json train.conll   |   "
    "rulefield convert train.xml tasks.json --to label-studio"
)
@with_options
def convert(
    source: Annotated[str, typer.Argument(help="File (or brat folder) to read.")],
    target: Annotated[str, typer.Argument(help="File (or brat folder) to write.")],
    reading: FileOptions,
    to: Annotated[str, typer.Option(help="Format to write; auto: by name.")] = "auto",
    names: Annotated[str | None, typer.Option(help="Names of integer tags, in order: O,B-PER,I-PER.")] = None,
    quiet: Quiet = False,
) -> None:
    """Rewrite annotated texts in another format: doccano, Label Studio, Prodigy, XML, brat, CoNLL, tables, ..."""
    from rulefield.cli.texts.converting import run_convert

    run_convert(source, target, to, names, reading, quiet)


@app.command(epilog="[b]Example[/b]: rulefield prove chunks.rf test.conll -o proofs/")
@with_options
def prove(
    model: ModelFile,
    source: Annotated[str, typer.Argument(help="Column file or JSON lines; lines of text if the model reads texts.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for one proof file per sequence.")],
    reading: ReadOptions,
    rules: Rules = None,
    jobs: Jobs = -1,
) -> None:
    """Label sequences and write proofs, which anyone can check, that no labeling is better."""
    from rulefield.cli.prove import run_prove

    run_prove(model, source, output, rules, reading, jobs)


@app.command(epilog="[b]Example[/b]: rulefield verify proofs/*")
def verify(
    files: Annotated[list[str], typer.Argument(help="Proof files, or folders that hold them.")],
) -> None:
    """Check proof files and say what each proves and what must still be trusted."""
    from rulefield.cli.prove import run_verify

    run_verify(files)


@app.command("warm-up", epilog="[b]Example[/b]: RUN pip install rulefield && rulefield warm-up")
def warm_up() -> None:
    """Compile what training, parsing and serving need, and keep it: for images of containers, before the first use."""
    from rulefield.cli.texts.warm_up import run_warm_up

    run_warm_up()


@app.command(epilog="[b]Example[/b]: rulefield demo --data addresses")
def demo(
    data: Annotated[str, typer.Option(help="citations or addresses.")] = "citations",
    n: Annotated[int, typer.Option(help="Training sequences.")] = 150,
    noise: Annotated[float, typer.Option(help="How damaged they are, 0 to 1.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    jobs: Jobs = -1,
) -> None:
    """Make up data, train, and show labeled output, scores, and what rules change. Takes under a minute."""
    from rulefield.cli.demo import run_demo

    run_demo(data, n, noise, seed, jobs)


def main() -> None:
    """Run the command line; mistakes in the input end with one sentence and exit code 2."""
    # Importing makes many objects and no garbage: a tenth of the start-up went into looking for it.
    gc.set_threshold(100_000)
    warnings.showwarning = _show_warning
    _check_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # arguments may hold any bytes
    signal.signal(signal.SIGTERM, _end)  # so that a file that is being written is cleaned up
    sys.unraisablehook = _raise_again
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the work is done: there is nothing to interrupt
    try:
        app()
    except RulefieldError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename!r}." if error.filename else str(error))


def _check_streams() -> None:
    """Refuse to work without standard output: the next file that is opened would take its place."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # it stays open
    if sys.stdout is None:
        _fail("standard output is closed; send it to a file, or to /dev/null.")


def _raise_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that came where Python can raise nothing, as in a finalizer; otherwise it would be lost."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(
            _interrupt_later, ()
        )  # threading.Thread.start would wait, perhaps until the interrupt
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_later() -> None:
    time.sleep(AGAIN_SECONDS)  # at once, the main thread would still be in the hook
    _thread.interrupt_main()


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


_ON_THE_COMMAND_LINE = {
    "use on_infeasible='relax'": "use --on-infeasible relax",
    'use on_infeasible="relax"': "use --on-infeasible relax",
    "scheme=None": "--scheme none",
    "written by save()": "written by rulefield train",
    "leave cv='prefit' out: the chain is then fitted on folds": "give other data, or use rulefield train --rules learn",
}
"""What the library's sentences call a parameter, and what it is here."""


def said(message: object) -> str:
    """Return a sentence of the library in the words of the command line."""
    sentence = str(message)
    for library, here in _ON_THE_COMMAND_LINE.items():
        sentence = sentence.replace(library, here)
    return sentence


def _fail(sentence: str) -> None:
    sys.stderr.write(f"rulefield: {said(sentence)}\n")
    sys.exit(2)


def _note(sentence: str) -> None:
    sys.stderr.write(f"rulefield: {sentence}\n")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"rulefield: {said(message)}\n")


if __name__ == "__main__":
    main()
