"""``rulefield prove`` and ``rulefield verify``: proof files of answers, and their check."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from rulefield import proofcheck
from rulefield.cli.options import ReadOptions
from rulefield.cli.prediction import model_tokens, read_rules
from rulefield.cli.reading import LINES, open_model, read_sequences, sequence_model, text_format
from rulefield.exceptions import InfeasibleError, InputError

SUFFIX = ".proof.json"


def run_prove(path: str, source: str, output: str, rules: str | None, reading: ReadOptions, jobs: int) -> None:
    """Decode what a file holds and write one proof file for each sequence; say which have none."""
    folder = _folder(output)
    opened = open_model(path, jobs)
    parser = opened if opened._kind == "text" else None
    if parser is not None and reading.form == "auto" and text_format(source, reading) is None:
        reading = replace(reading, form=LINES)
    model = sequence_model(opened)
    tokens = model_tokens(model, read_sequences(source, reading, labeled=False, parser=parser).tokens)
    answers = _answers(model.set_params(on_infeasible="raise"), tokens, read_rules(rules))
    without = [i for i, answer in enumerate(answers) if not _saved(answer, folder / f"{i:06d}{SUFFIX}")]
    typer.echo(f"{len(answers) - len(without)} of {len(answers)} answers have a proof file in {output}.")
    for i in without:
        typer.echo(
            f"sequence {i} has none: the answer, {getattr(answers[i], 'status', 'infeasible')}, is the engine's word."
        )


def run_verify(paths: Sequence[str]) -> None:
    """Check proof files, and those in folders; exit with code 1 if one is refused."""
    files = [str(file) for path in paths for file in _files(Path(path))]
    if not files:
        raise InputError(
            f"no file ends in {SUFFIX!r} in {', '.join(paths)}; name proof files, or folders that hold them."
        )
    refused = proofcheck.main(files)
    typer.echo(f"{len(files) - refused} of {len(files)} proofs accepted.")
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
