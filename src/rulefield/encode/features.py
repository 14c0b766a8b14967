"""From the features that people write (dicts, lists of strings, matrices) to one sparse matrix.

A token's features are read as python-crfsuite reads them:

======================================  =========================================
token                                   features
======================================  =========================================
``["bias", "w=the"]`` (or a set)        ``bias``: 1, ``w=the``: 1
``{"word": "the"}``                     ``word:the``: 1
``{"upper": True, "digit": False}``     ``upper``: 1 (``digit``: 0, so it is left out)
``{"length": 3, "score": .5}``          ``length``: 3, ``score``: .5
``{"suffix": ["e", "he"]}`` (or a set)  ``suffix:e``: 1, ``suffix:he``: 1
``{"next": {"word": "cat"}}``           ``next:word:cat``: 1, to any depth
======================================  =========================================

A feature that occurs twice in a token adds up. Strings are turned into numbers in bulk, by compiled code; what
survives is the vocabulary and the matrix, both flat arrays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, islice
from numbers import Real
from typing import Any

import numpy as np

from rulefield.data.cut_texts import CutTexts
from rulefield.data.limits import LARGEST_FEATURE, WAY_OUT
from rulefield.data.sequences import Sequences, SparseRows, is_sparse, ones, pointers32
from rulefield.encode.vocabulary import PORTION, Vocabulary
from rulefield.exceptions import InputError

DEEPEST = 100
"""Most feature dicts inside each other."""
_MANY = (list, set, frozenset, tuple)
Entries = tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]
"""Columns of all features of all tokens, their values (None: all 1), features per token, tokens per sequence."""


class InputForm(StrEnum):
    """The ways in which sequences are given."""

    sequences = "rf.formats.Sequences"
    matrices = "one matrix per sequence"
    dicts = "feature dicts"
    strings = "lists of feature strings"
    tokens = "plain tokens"
    empty = "no token at all"


def input_form(X: Any, quick: bool = False) -> InputForm:
    """Tell how ``X`` is given, from its types only (one pass over tokens, none over features).

    ``quick``: whoever reads feature strings or tokens will look at the types of all of them anyway; the first one tells.

    Raises
    ------
    InputError
        ``X`` is not a list of sequences, or mixes forms.
    """
    if isinstance(X, Sequences):
        return InputForm.sequences
    if isinstance(X, CutTexts):
        return InputForm.tokens
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise InputError(f"X must be a list of sequences of tokens, or rf.formats.Sequences; got {type(X).__name__}.")
    if is_sparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        raise InputError(
            "X is one matrix; write rf.formats.Sequences(matrix, lengths), to say where each sequence ends."
        )
    kinds = set(map(type, X))
    if kinds and all(is_sparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype != object) for x in X):
        return InputForm.matrices
    bad = [kind for kind in kinds if not _is_list(kind)]
    if bad:
        i = next(i for i, x in enumerate(X) if type(x) is bad[0])
        raise InputError(
            f"X must be a list of sequences, each a list of tokens, but X[{i}] is a {bad[0].__name__}"
            f"{': for one sequence write [X]' if bad[0] in (str, dict, tuple, set) else ''}."
        )
    first = next(chain.from_iterable(X), None) if quick else None
    if isinstance(first, (str, _MANY)):
        return InputForm.tokens if isinstance(first, str) else InputForm.strings
    return _token_form(X)


def _is_list(kind: type) -> bool:
    return issubclass(kind, (list, tuple, np.ndarray))


def _token_form(X: Iterable[Any]) -> InputForm:
    forms: dict[InputForm, type] = {}
    for kind in set(map(type, chain.from_iterable(X))):
        if issubclass(kind, Mapping):
            forms[InputForm.dicts] = kind
        elif issubclass(kind, str):
            forms[InputForm.tokens] = kind
        elif issubclass(kind, _MANY):
            forms[InputForm.strings] = kind
        else:
            raise InputError(
                f"a token must be a dict, a list of feature strings, or a string; {_place_of_type(X, kind)} is a "
                f"{kind.__name__}; numeric features go into rf.formats.Sequences(matrix, lengths)."
            )
    if len(forms) > 1:
        first, second = list(forms.values())[:2]
        raise InputError(
            f"all tokens must have one form, but {_place_of_type(X, first)} is a {first.__name__} and "
            f"{_place_of_type(X, second)} is a {second.__name__}."
        )
    return next(iter(forms), InputForm.empty)


def refuse_columns(X: Sequence[Any]) -> None:
    """Refuse tokens that are all tuples of one length: columns of a file, most likely, and not features."""
    first = next((token for tokens in X for token in tokens), None)
    if not isinstance(first, tuple) or len(first) < 2:
        return
    tokens = list(chain.from_iterable(X))
    if set(map(type, tokens)) == {tuple} and set(map(len, tokens)) == {len(first)}:
        raise InputError(
            f"every token is a tuple of {len(first)} strings, such as {first!r}, which may be columns or features; write "
            "features=rf.TokenFeatures() for columns, the word first, or give lists of feature strings."
        )


def _place_of_type(X: Iterable[Any], kind: type) -> str:
    for i, tokens in enumerate(X):
        for t, token in enumerate(tokens):
            if type(token) is kind:
                return f"token {t} of sequence {i}"
    return "a token"


class FeatureEncoder:
    """A vocabulary of features, and the matrices that it makes.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Feature names in the order in which they were first met; a feature's column is its number there.
    """

    def __init__(self, names: Iterable[str] = ()):
        self.vocabulary_ = Vocabulary(names)

    @property
    def names(self) -> list[str]:
        """Feature names by column (a new list at each call)."""
        return self.vocabulary_.names

    def fit_transform(self, X: Any) -> Sequences:
        """Encode ``X``; features that are new get the next columns."""
        return self._assemble(*self.read(X, grow=True))

    def transform(self, X: Any) -> Sequences:
        """Encode ``X``; unknown features are left out."""
        return self._assemble(*self.read(X, grow=False))

    def joined(self, parts: list[Entries]) -> Sequences:
        """Build one matrix from what was read in several goes; ``parts`` is emptied, so that it is not held twice."""
        if len(parts) == 1:
            return self._assemble(*parts.pop())
        counts, lengths = (np.concatenate([np.zeros(0, np.int64), *(part[k] for part in parts)]) for k in (2, 3))
        valued = any(part[1] is not None for part in parts)
        ids = np.empty(sum(len(part[0]) for part in parts), np.int32)
        values = np.empty(len(ids)) if valued else None
        end = len(ids)
        while parts:
            part = parts.pop()
            begin = end - len(part[0])
            ids[begin:end] = part[0]
            if values is not None:
                values[begin:end] = 1.0 if part[1] is None else part[1]
            end = begin
        return self._assemble(ids, values, counts, lengths)

    def read(self, X: Any, grow: bool, form: InputForm | None = None) -> Entries:
        """Give the features of ``X`` their numbers; those that are new the next ones with ``grow``, otherwise -1."""
        X = X if isinstance(X, (list, tuple, np.ndarray, Sequences)) else _listed(X)
        form = form or input_form(X)
        lengths = np.fromiter(map(len, X), dtype=np.int64, count=len(X))
        if form is InputForm.strings:
            return self._read_strings(X, lengths, grow)
        if form is InputForm.dicts:
            return self._read_dicts(X, lengths, grow)
        if form is InputForm.empty:
            return np.zeros(0, np.int32), None, np.zeros(0, np.int64), lengths
        raise InputError(f"FeatureEncoder reads feature dicts and lists of feature strings; got {form.value}.")

    def _read_strings(self, X: Sequence[Any], lengths: np.ndarray, grow: bool) -> Entries:
        """Unknown strings are left out at once: a portion of tokens is in the cache while it is looked at."""
        tokens, made = chain.from_iterable(X), [(np.zeros(0, np.int32), np.zeros(0, np.int64))]
        while portion := list(islice(tokens, PORTION)):
            if not all(issubclass(kind, _MANY) for kind in set(map(type, portion))):
                _token_form(X)  # raises
            try:
                made.append(self.vocabulary_.number_known(portion, grow))
            except TypeError:
                _refuse_other_types(X)
                raise
        counts = np.concatenate([part[1] for part in made])
        return _concatenated([made.pop()[0] for _ in range(len(made))]), None, counts, lengths

    def _read_dicts(self, X: Sequence[Any], lengths: np.ndarray, grow: bool) -> Entries:
        reader = DictReader()
        try:
            ids = self.vocabulary_.number(reader.names(chain.from_iterable(X)), grow)
        except BadFeatureError as bad:
            raise InputError(f"{_place(len(reader.counts), lengths)}: {bad}.") from None
        return ids, reader.values(len(ids)), np.array(reader.counts, dtype=np.int64), lengths

    def _assemble(
        self, ids: np.ndarray, values: np.ndarray | None, counts: np.ndarray, lengths: np.ndarray
    ) -> Sequences:
        """Build the matrix from the columns of all occurrences; ``counts`` of them belong to each token."""
        ends = np.cumsum(counts)
        if len(ids) and ids.min() < 0:
            known = ids >= 0
            kept = np.zeros(len(ids) + 1, dtype=np.int64)
            np.cumsum(known, out=kept[1:])
            ends = kept[ends]
            ids = ids[known]
            values = None if values is None else values[known]
        indptr = pointers32(ends)
        data = ones(len(ids)) if values is None else values
        return Sequences(SparseRows(data, ids, indptr, (len(counts), len(self.vocabulary_))), lengths)


def _concatenated(parts: list[np.ndarray]) -> np.ndarray:
    """Put parts, the last one first, one behind the other; ``parts`` is emptied meanwhile, so that nothing is held twice."""
    made, end = np.empty(sum(map(len, parts)), np.int32), 0
    while parts:
        part = parts.pop()
        made[end : end + len(part)] = part
        end += len(part)
    return made


def _listed(X: Any) -> Any:
    return list(X) if isinstance(X, Iterable) and not isinstance(X, (str, bytes, Mapping)) else X


# --- words for bad input --------------------------------------------------------------------------


def _refuse_other_types(X: Sequence[Any]) -> None:
    for i, tokens in enumerate(X):
        for t, token in enumerate(tokens):
            for feature in token:
                if not isinstance(feature, str):
                    raise InputError(
                        f"token {t} of sequence {i}: a feature in a list must be a string; got {feature!r} "
                        f"({type(feature).__name__}); write a dict {{name: value}} for numbers."
                    )


def _place(token: int, lengths: np.ndarray) -> str:
    sequence = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    return f"token {token - int(lengths[:sequence].sum())} of sequence {sequence}"


# --- feature dicts -------------------------------------------------------------------------------


class BadFeatureError(Exception):
    """A feature cannot be read; the reader knows at which token it stopped."""


class DictReader:
    """Reads tokens one after the other and remembers what is not in their names.

    Attributes
    ----------
    counts : list of int
        Features of each token that was read.
    weights : list of (int, float)
        Values other than 1: which feature, counted over all tokens, and the value.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.weights: list[tuple[int, float]] = []

    def names(self, tokens: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
        """Names of the features of each token; features with value 0 are left out."""
        total = 0
        for token in tokens:
            names: list[str] = []
            for key, value in token.items():
                if value.__class__ is str and key.__class__ is str:  # by far the most frequent kind
                    names.append(f"{key}:{value}")
                elif value is not False:
                    self._read(key, value, names, total)
            self.counts.append(len(names))
            total += len(names)
            yield names

    def values(self, total: int) -> np.ndarray | None:
        """Values of all features (total,), None if all are 1."""
        if not self.weights:
            return None
        made = np.ones(total)
        where, values = zip(*self.weights)
        made[list(where)] = values
        return made

    def _read(self, key: Any, value: Any, names: list[str], total: int, depth: int = 1) -> None:
        if not isinstance(key, str):
            raise BadFeatureError(f"feature names must be strings; got {key!r}")
        if isinstance(value, (str, bytes)):
            names.append(f"{key}:{_text(value)}")
        elif isinstance(value, (Real, np.bool_)):
            self._read_number(key, value, names, total)
        elif isinstance(value, Mapping):
            if depth == DEEPEST:
                raise BadFeatureError(f"feature {key[:30]!r}... is nested more than {DEEPEST} deep; write it flat")
            for sub, inner in value.items():
                if not isinstance(sub, str):
                    raise BadFeatureError(f"names inside feature {key!r} must be strings; got {sub!r}")
                self._read(f"{key}:{sub}", inner, names, total, depth + 1)
        elif isinstance(value, (list, set, frozenset, tuple)):
            for item in value:
                if not isinstance(item, (str, bytes)):
                    raise BadFeatureError(f"feature {key!r} lists {item!r}, which is not a string")
                names.append(f"{key}:{_text(item)}")
        else:
            raise BadFeatureError(_complaint(key, value))

    def _read_number(self, key: str, value: Any, names: list[str], total: int) -> None:
        if value == 0:
            return
        if value != 1:
            if not abs(value) <= LARGEST_FEATURE:
                raise BadFeatureError(f"feature {key!r} is {_shown(value)}; values {WAY_OUT}")
            number = float(value)
            self.weights.append((total + len(names), number))
        names.append(key)


def _shown(value: Any) -> str:
    return "a number of more than 300 digits" if isinstance(value, int) and abs(value) > 1e300 else f"{value:g}"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def _complaint(key: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"feature {key!r} is an array; give its entries names, or use rf.formats.Sequences"
    way_out = "leave it out" if value is None else "a value is a string, number, bool, list, set or dict"
    return f"feature {key!r} has the value {value!r} ({type(value).__name__}): {way_out}"
