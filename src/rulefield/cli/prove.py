"""``rulefield prove`` and ``rulefield verify``: proof files of answers, and their check."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rulefield import proofcheck
from rulefield.cli.options import Jobs, ModelFile, ReadOptions, Rules, command
from rulefield.cli.prediction import model_tokens, read_rules
from rulefield.cli.reading import LINES, open_model, read_sequences, sequence_model, text_format
from rulefield.exceptions import InfeasibleError, InputError

SUFFIX = ".proof.json"


@command("prove", "rulefield prove chunks.rf test.conll -o proofs/")
def prove(
    model: ModelFile,
    source: Annotated[str, typer.Argument(help="Column file or JSON lines; lines of text if the model reads texts.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for one proof file per sequence.")],
    reading: ReadOptions,
    rules: Rules = None,
    jobs: Jobs = -1,
) -> None:
    """Label sequences and write proofs, which anyone can check, that no labeling is better."""
    folder = _folder(output)
    opened = open_model(model, jobs)
    parser = opened if opened._kind == "text" else None
    if parser is not None and reading.form == "auto" and text_format(source, reading) is None:
        reading = replace(reading, form=LINES)
    labeler = sequence_model(opened)
    tokens = model_tokens(labeler, read_sequences(source, reading, labeled=False, parser=parser).tokens)
    answers = _answers(labeler.set_params(on_infeasible="raise"), tokens, read_rules(rules))
    without = [i for i, answer in enumerate(answers) if not _saved(answer, folder / f"{i:06d}{SUFFIX}")]
    typer.echo(f"{len(answers) - len(without)} of {len(answers)} answers have a proof file in {output}.")
    for i in without:
        typer.echo(
            f"sequence {i} has none: the answer, {getattr(answers[i], 'status', 'infeasible')}, is the engine's word."
        )


@command("verify", "rulefield verify proofs/*")
def verify(
    files: Annotated[list[str], typer.Argument(help="Proof files, or folders that hold them.")],
) -> None:
    """Check proof files and say what each proves and what must still be trusted."""
    proofs = [str(file) for path in files for file in _files(Path(path))]
    if not proofs:
        raise InputError(
            f"no file ends in {SUFFIX!r} in {', '.join(files)}; name proof files, or folders that hold them."
        )
    refused = proofcheck.main(proofs)
    typer.echo(f"{len(proofs) - refused} of {len(proofs)} proofs accepted.")
    if refused:
        raise typer.Exit(1)


def _files(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _folder(output: str) -> Path:
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write proofs to {output!r}: it is a file; give a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _answers(crf: Any, tokens: list[Any], rules: Any) -> list[Any]:
    """Return an answer for each sequence, or the error that says that none is possible."""
    try:
        return list(crf.decode(tokens, rules=rules))
    except InfeasibleError as error:
        return [answer for one in tokens for answer in _answers(crf, [one], rules)] if len(tokens) > 1 else [error]


def _saved(answer: Any, path: Path) -> bool:
    proof = answer.proof()
    if proof is not None:
        proof.save(path)
    return proof is not None
