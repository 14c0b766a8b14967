"""Files with labels of several tasks: which column, or which key, holds which task."""

from typing import Any

from rulefield.cli.corpus import FileContents, form_of, read_corpus, words
from rulefield.cli.options import FileOptions
from rulefield.data.limits import is_whole
from rulefield.exceptions import InputError, LabelError

UNKNOWN = "_"

Tasks = dict[str, int | None]


def parse_tasks(text: str) -> Tasks:
    """Read ``ner=3,pos=1`` (columns, counted from 0) or ``ner,pos`` (keys of JSON lines); None is the last column."""
    tasks: Tasks = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not is_whole(column)):
            raise InputError(f"--tasks must read name=column,name=column, such as ner=3,pos=1; got {text!r}.")
        if name in tasks:
            raise InputError(f"--tasks names the task {name!r} twice.")
        tasks[name] = int(column) if equals else None
    return tasks


def read_tasks(path: str, how: FileOptions, tasks: Tasks, unknown: str | None = None) -> FileContents:
    """Read words, and labels as one dict of task to labels for each sequence.

    A label ``unknown`` (``_``) is None; a task without any label in a sequence is None there.
    """
    corpus = read_corpus(path, how.form, labeled=False, encoding=how.encoding)
    read = _from_objects if form_of(path, how.form) == "jsonl" else _from_columns
    labels = [
        {task: _known(row, unknown or UNKNOWN) for task, row in record.items()} for record in read(corpus, tasks)
    ]
    return FileContents(words(corpus.tokens), labels, corpus.records, corpus.form, corpus.separator)


def _known(labels: list[Any] | None, unknown: str) -> list[Any] | None:
    known = [None if label == unknown else label for label in labels or []]
    return known if any(label is not None for label in known) else None


def _from_columns(corpus: FileContents, tasks: Tasks) -> list[dict[str, Any]]:
    width = len(corpus.records[0][0])
    if len(tasks) > 1 and None in tasks.values():
        raise InputError("--tasks must say the column of every task of a column file, such as ner=3,pos=1.")
    places = {task: width - 1 if column is None else column for task, column in tasks.items()}
    for task, column in places.items():
        if not 1 <= column < width:
            raise InputError(
                f"the task {task!r} cannot be in column {column}: the file has columns 0 (the word) to {width - 1}."
            )
    return [{task: [row[k] for row in block] for task, k in places.items()} for block in corpus.records]


def _from_objects(corpus: FileContents, tasks: Tasks) -> list[dict[str, Any]]:
    rows = []
    for number, (tokens, record) in enumerate(zip(corpus.tokens, corpus.records), 1):
        labels = record.get("labels")
        if not isinstance(labels, dict):
            raise InputError(f'sequence {number}: "labels" must be an object with a list for each task.')
        row = {task: labels.get(task) for task in tasks}
        for task, values in row.items():
            if values is not None and (not isinstance(values, list) or len(values) != len(tokens)):
                raise LabelError(
                    f"sequence {number}: the task {task!r} needs a list of {len(tokens)} labels, or null."
                )
        rows.append(row)
    return rows


def labeled_rows(corpus: FileContents, task: str) -> list[int]:
    """Sequences in which every label of a task is known."""
    return [
        i
        for i, row in enumerate(corpus.labels or [])
        if row[task] is not None and all(label is not None and not isinstance(label, list) for label in row[task])
    ]
