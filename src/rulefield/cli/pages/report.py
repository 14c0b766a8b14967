"""``rulefield report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rulefield.cli.corpus import protect_inputs
from rulefield.cli.options import Jobs, Quiet, ReadOptions, Rules, command
from rulefield.cli.prediction import read_rules, rule_files
from rulefield.cli.reading import open_model, read_labeled_texts, read_sequences, sequence_model
from rulefield.cli.show import console
from rulefield.exceptions import InputError


@command(
    "report",
    "rulefield report chunks.rf test.conll -o report.html",
    "rulefield report old.rf new.rf test.conll -o compared.html",
)
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
    from rulefield.report.page import write_report

    if len(files) not in (2, 3):
        raise InputError(f"report needs MODEL TEST, or two models and TEST; got {len(files)} files.")
    *models, test = files
    protect_inputs(output, [*files, *rule_files(rules)])
    opened = [open_labeler(path, jobs) for path in models]
    if len({model._kind == "text" for model in opened}) > 1:
        raise InputError(
            "a parser of texts and a model of sequences cannot be compared on one file; train two of a kind."
        )
    X, y = read_labeled(opened[-1], test, reading)
    names = [Path(path).name for path in models]
    write_report(
        opened[-1],
        X,
        y,
        output,
        baseline=opened[0] if len(opened) == 2 else None,
        rules=read_rules(rules),
        title=title or f"{names[-1]} on {Path(test).name}",
        data=Path(test).name,
        names=(names[0], names[-1]) if names[0] != names[-1] else (models[0], models[-1]),
    )
    if not quiet:
        size = Path(output).stat().st_size / 1024
        console(to_error=True).print(f"{output}: {len(X)} sequences, {size:.0f} KB; open it in a browser.")


def open_labeler(path: str, jobs: int) -> Any:
    """Read a model file: a parser, or a model that labels sequences with one label per token."""
    from rulefield.report.certainty import check_sequence_model

    model = open_model(path, jobs)
    check_sequence_model(sequence_model(model))
    return model


def read_labeled(model: Any, path: str, reading: ReadOptions) -> tuple[list[Any], list[Any]]:
    """Return tokens and gold labels of columns or JSON lines; of a parser, texts and gold spans of any format."""
    if model._kind != "text":
        corpus = read_sequences(path, reading, labeled=True)
        return corpus.tokens, corpus.labels or []
    documents, spans = read_labeled_texts(path, reading)
    return [document.text for document in documents], spans
