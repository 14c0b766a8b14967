"""Columns of texts in, columns of fields out: lists, numpy arrays, pandas, polars and Arrow, through narwhals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rulefield.estimators.text.parse import Parse
from rulefield.exceptions import InputError

PROBABILITY, BROKEN = "probability", "broken"


def texts_of(texts: Any) -> list[str]:
    """Texts of any column as a list; missing values are empty texts."""
    if isinstance(texts, str):
        raise InputError("texts must be a list or a column of strings; for one text write [text], or parse(text).")
    if isinstance(texts, Mapping):
        raise InputError(f"texts must be a list or a column of strings; got a {type(texts).__name__} of columns.")
    if not isinstance(texts, list | tuple):
        texts = _series(texts)
    made = ["" if _missing(text) else text for text in texts]
    wrong = next((i for i, text in enumerate(made) if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"texts[{wrong}] must be a string; got {made[wrong]!r:.60}.")
    return made


def _missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, or what pandas writes for it."""
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _series(column: Any) -> Iterable[Any]:
    import narwhals as nw

    found = nw.from_native(column, allow_series=True, pass_through=True)
    if isinstance(found, nw.DataFrame | nw.LazyFrame):
        names = found.collect_schema().names()
        raise InputError(
            f"texts must be one column of strings; got a whole frame with the columns {', '.join(map(repr, names))}: "
            f"choose one, frame[{names[0] if names else 'name'!r}]."
        )
    if isinstance(found, nw.Series):
        return found.to_list()
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    if not hasattr(column, "__iter__"):
        raise InputError(f"texts must be a list or a column of strings; got {type(column).__name__}.")
    return column


def field_columns(parses: Sequence[Parse], labels: Sequence[str]) -> dict[str, list[Any]]:
    """One column per label (texts of a label that comes back joined by a blank), ``probability`` and ``broken``."""
    columns: dict[str, list[Any]] = {label: [] for label in labels}
    for parse in parses:
        fields = parse.fields
        for label in labels:
            value = fields.get(label)
            columns[label].append(" ".join(value) if isinstance(value, list) else value)
    chance, broken = (_free(name, labels) for name in (PROBABILITY, BROKEN))
    columns[chance] = [parse.probability for parse in parses]
    columns[broken] = ["; ".join(b.rule for b in parse.broken) for parse in parses]
    return columns


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def as_frame(columns: dict[str, list[Any]], like: Any) -> Any:
    """Columns as a frame of the library that ``like`` belongs to, by its index if it has one; else a plain dict."""
    import narwhals as nw

    found = nw.from_native(like, series_only=True, pass_through=True)
    if not isinstance(found, nw.Series):
        return columns
    frame = nw.from_dict(columns, backend=found.implementation).to_native()
    if found.implementation.is_pandas_like():
        frame.index = like.index
    return frame
