"""``rulefield next``: what to label next."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from rulefield.cli.corpus import STANDARD, FileContents, protect_inputs, with_labels, write_lines
from rulefield.cli.options import Jobs, ModelFile, Output, Quiet, ReadOptions, Rules, command
from rulefield.cli.pages.report import open_labeler
from rulefield.cli.prediction import read_rules, rule_files
from rulefield.cli.reading import read_sequences, read_texts
from rulefield.cli.show import console
from rulefield.data.documents import TextSpan
from rulefield.exceptions import InputError


@command(
    "next",
    "rulefield next m.rf pool.jsonl -n 25 -o batch.jsonl",
    "rulefield next parser.rf texts.txt -n 25 -o tasks.json --to label-studio",
)
def choose_next(
    model: ModelFile,
    pool: Annotated[str, typer.Argument(help="Unlabeled data: columns or JSON lines; of a parser, texts.")],
    reading: ReadOptions,
    output: Output = STANDARD,
    n: Annotated[int, typer.Option("-n", help="How many to choose.")] = 25,
    rules: Rules = None,
    to: Annotated[str, typer.Option(help="Format to write (of a parser): label-studio, doccano, ...")] = "auto",
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Choose what to label next: least certain, unlike each other, with the model's labels and their probabilities."""
    protect_inputs(output, [model, pool, *rule_files(rules)])
    opened, acting = open_labeler(model, jobs), read_rules(rules)
    write = _write_documents if opened._kind == "text" else _write_sequences
    count, of = write(opened, pool, output, n, acting, reading, to)
    if not quiet:
        console(to_error=True).print(
            f"{count} of {of} chosen, the most useful first; correct their labels, then train again."
        )


def _write_sequences(
    model: Any, pool: str, output: str, n: int, rules: Any, reading: ReadOptions, to: str
) -> tuple[int, int]:
    from rulefield.report.suggest import suggest

    if to != "auto":
        raise InputError(
            "--to needs the model of a TextParser; token sequences are written in the format of the pool."
        )
    corpus = read_sequences(pool, reading, labeled=False)
    suggestions = suggest(model, corpus.tokens, n, rules=rules)
    chosen = FileContents([], None, [corpus.records[s.index] for s in suggestions], corpus.form, corpus.separator)
    extra = [
        {"probabilities": [round(float(p), 6) for p in s.probabilities], "doubt": round(s.doubt, 6)}
        for s in suggestions
    ]
    write_lines(output, with_labels(chosen, [s.labeling.labels for s in suggestions], extra))
    return len(suggestions), len(corpus.tokens)


def _write_documents(
    parser: Any, pool: str, output: str, n: int, rules: Any, reading: ReadOptions, to: str
) -> tuple[int, int]:
    from rulefield.encode.formats import write_documents
    from rulefield.encode.formats.base import compact
    from rulefield.report.suggest import suggest

    documents = read_texts(pool, reading)
    if not documents:
        raise InputError(f"{pool!r} holds no text to choose from.")
    suggestions = suggest(parser, [document.text for document in documents], n, rules=rules)
    chosen = [documents[s.index] for s in suggestions]
    parses = parser.parse_all([document.text for document in chosen], rules=rules)
    labeled = [
        replace(
            document,
            spans=tuple(TextSpan(s.start, s.end, s.label, s.probability) for s in parse.spans),
            tokens=None,
            extra={**document.extra, "doubt": round(s.doubt, 6)},
        )
        for document, parse, s in zip(chosen, parses, suggestions)
    ]
    if output == STANDARD:
        rows = ({**parse.to_dict(), "doubt": round(s.doubt, 6)} for parse, s in zip(parses, suggestions))
        write_lines(output, map(compact, rows))
    else:
        write_documents(labeled, output, to)
    return len(suggestions), len(documents)
