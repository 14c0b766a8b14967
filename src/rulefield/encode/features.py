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
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from rulefield.data.sequences import Sequences
from rulefield.encode.vocabulary import Vocabulary
from rulefield.exceptions import InputError

_MANY = (list, set, frozenset, tuple)
_NOTHING, _PENDING = -1, -2


class Form(StrEnum):
    """The ways in which sequences are given."""

    sequences = "rf.Sequences"
    matrices = "one matrix a sequence"
    dicts = "feature dicts"
    strings = "lists of feature strings"
    tokens = "plain tokens"
    empty = "no token at all"


def input_form(X: Any) -> Form:
    """Tell how ``X`` is given, from its types only (one pass over tokens, none over features).

    Raises
    ------
    InputError
        ``X`` is not a list of sequences, or mixes forms.
    """
    if isinstance(X, Sequences):
        return Form.sequences
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise InputError(f"X must be a list of sequences of tokens, or rf.Sequences; got {type(X).__name__}.")
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        raise InputError("X is one matrix; write rf.Sequences(matrix, lengths), to say where each sequence ends.")
    kinds = set(map(type, X))
    if kinds and all(sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype != object) for x in X):
        return Form.matrices
    bad = [kind for kind in kinds if not _is_list(kind)]
    if bad:
        i = next(i for i, x in enumerate(X) if type(x) is bad[0])
        raise InputError(
            f"X must be a list of sequences, each a list of tokens, but X[{i}] is a {bad[0].__name__}"
            f"{': for one sequence write [X]' if bad[0] in (str, dict, tuple, set) else ''}."
        )
    return _token_form(X)


def _is_list(kind: type) -> bool:
    return issubclass(kind, (list, tuple, np.ndarray))


def _token_form(X: Iterable[Any]) -> Form:
    forms: dict[Form, type] = {}
    for kind in set(map(type, chain.from_iterable(X))):
        if issubclass(kind, Mapping):
            forms[Form.dicts] = kind
        elif issubclass(kind, str):
            forms[Form.tokens] = kind
        elif issubclass(kind, _MANY):
            forms[Form.strings] = kind
        else:
            raise InputError(
                f"a token must be a dict, a list of feature strings, or a string; {_place_of_type(X, kind)} is a "
                f"{kind.__name__}; numeric features go into rf.Sequences(matrix, lengths)."
            )
    if len(forms) > 1:
        first, second = list(forms.values())[:2]
        raise InputError(
            f"all tokens must have one form, but {_place_of_type(X, first)} is a {first.__name__} and "
            f"{_place_of_type(X, second)} is a {second.__name__}."
        )
    return next(iter(forms), Form.empty)


def _place_of_type(X: Iterable[Any], kind: type) -> str:
    for i, tokens in enumerate(X):
        for t, token in enumerate(tokens):
            if type(token) is kind:
                return f"token {t} of sequence {i}"
    return "a token"


class FeatureEncoder:
    """A vocabulary of features, and the matrices that it makes.

    Parameters
    ----------
    min_count : int, default 1
        Features that occur in fewer tokens of the training data are left out.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Feature names; a feature's column is its number there.

    Notes
    -----
    Feature names are kept in the order in which they are first met. Unknown features are ignored by
    :meth:`transform`.
    """

    def __init__(self, min_count: int = 1):
        self.min_count = min_count

    @property
    def names(self) -> list[str]:
        """Feature names by column (made anew at each call)."""
        return self.vocabulary_.names

    @classmethod
    def from_names(cls, names: Iterable[str], min_count: int = 1) -> "FeatureEncoder":
        """Make a fitted encoder from its feature names (a saved model's)."""
        encoder = cls(min_count)
        encoder.vocabulary_ = Vocabulary(names)
        return encoder

    def fit(self, X: Any) -> "FeatureEncoder":
        """Learn the vocabulary."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any) -> Sequences:
        """Learn the vocabulary of ``X``, and encode it."""
        self.vocabulary_ = Vocabulary()
        made = self.extend(X)
        return _prune(self, made) if self.min_count > 1 else made

    def extend(self, X: Any) -> Sequences:
        """Encode ``X``; features that are new get the next columns."""
        return self._encode(X, grow=True)

    def transform(self, X: Any) -> Sequences:
        """Encode ``X``; unknown features are left out."""
        return self._encode(X, grow=False)

    def _encode(self, X: Any, grow: bool) -> Sequences:
        X = X if isinstance(X, (list, tuple, np.ndarray, Sequences)) else _listed(X)
        form = input_form(X)
        lengths = np.fromiter(map(len, X), dtype=np.int64, count=len(X))
        if form is Form.strings:
            return self._encode_strings(X, lengths, grow)
        if form is Form.dicts:
            return self._encode_dicts(X, lengths, grow)
        if form is Form.empty:
            return self._assemble(np.zeros(0, np.int32), None, np.zeros(0, np.int64), lengths)
        raise InputError(f"FeatureEncoder reads feature dicts and lists of feature strings; got {form.value}.")

    def _encode_strings(self, X: Sequence[Any], lengths: np.ndarray, grow: bool) -> Sequences:
        counts = np.fromiter(map(len, chain.from_iterable(X)), dtype=np.int64, count=int(lengths.sum()))
        try:
            ids = self.vocabulary_.number(chain.from_iterable(X), grow)
        except TypeError:
            _refuse_other_types(X)
            raise
        return self._assemble(ids, None, counts, lengths)

    def _encode_dicts(self, X: Sequence[Any], lengths: np.ndarray, grow: bool) -> Sequences:
        try:
            return self._encode_pairs(X, lengths, grow, plain=True)
        except _UnhashableError:
            return self._encode_pairs(X, lengths, grow, plain=False)

    def _encode_pairs(self, X: Sequence[Any], lengths: np.ndarray, grow: bool, plain: bool) -> Sequences:
        """Give numbers to the distinct pairs first, then to their names; ``plain``: no value holds several."""
        table = _PairTable()
        sizes: list[int] = []
        tokens = chain.from_iterable(X)
        pairs: Any = chain.from_iterable(map(dict.items, tokens)) if plain else _expanded(tokens, sizes)
        try:
            local = np.fromiter(map(table.__getitem__, pairs), dtype=np.int32)
        except TypeError as error:
            if plain and "unhashable" in str(error):
                raise _UnhashableError from None
            raise
        except _BadFeatureError as bad:
            raise InputError(f"{_place_of_feature(X, bad)}: {bad.reason}.") from None
        counts = np.fromiter(map(len, chain.from_iterable(X)) if plain else sizes, dtype=np.int64)
        values = table.fill(local)
        if values is not None and not np.isfinite(values).all():
            _refuse_not_finite(values, counts, lengths, local, list(table.names))
        columns = np.append(
            self.vocabulary_.number([table.names], grow), np.int32(_NOTHING)
        )  # the last one is for zeros
        return self._assemble(columns[local], values, counts, lengths)

    def _assemble(
        self, ids: np.ndarray, values: np.ndarray | None, counts: np.ndarray, lengths: np.ndarray
    ) -> Sequences:
        """Build the matrix from the columns of all occurrences; ``counts`` of them belong to each token."""
        ends = np.cumsum(counts)
        if len(ids) and ids.min() < 0:
            known = ids >= 0
            kept = np.zeros(len(ids) + 1, dtype=np.int32)
            np.cumsum(known, out=kept[1:])
            ends = kept[ends]
            ids = ids[known]
            values = None if values is None else values[known]
        indptr = np.zeros(len(counts) + 1, dtype=np.int32)
        indptr[1:] = ends
        data = np.ones(len(ids)) if values is None else values
        return Sequences(sp.csr_array((data, ids, indptr), shape=(len(counts), len(self.vocabulary_))), lengths)


class _UnhashableError(Exception):
    """A value holds several: the slower reading, which takes values apart, is needed."""


class _BadFeatureError(Exception):
    def __init__(self, key: Any, value: Any, reason: str):
        super().__init__(reason)
        self.key, self.value, self.reason = key, value, reason


class _PairTable(dict):
    """A number for each distinct feature among (key, value) pairs; ``names`` holds their names.

    Equal pairs are the same feature, also across types: ("k", True) and ("k", 1.0) are k with weight 1, and
    ("k", False) and ("k", 0) are nothing (-1). Other numbers are not kept: they wait in ``waiting``, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.waiting: list[tuple[int, float]] = []

    def __missing__(self, pair: tuple[Any, Any]) -> int:
        key, value = pair
        if isinstance(value, bytes):
            value = value.decode()
        if not isinstance(key, str):
            raise _BadFeatureError(key, value, f"feature names must be strings; got {key!r}")
        if isinstance(value, str):
            column = self.number(f"{key}:{value}")
        elif isinstance(value, (Real, np.bool_)):
            amount = float(value)
            if amount not in (0.0, 1.0):
                self.waiting.append((self.number(key), amount))
                return _PENDING
            column = self.number(key) if amount else _NOTHING
        elif isinstance(value, _MANY):
            raise _UnhashableError
        else:
            kind = type(value).__name__
            way_out = "leave it out" if value is None else "a value is a string, number, bool, list, set or dict"
            raise _BadFeatureError(key, value, f"feature {key!r} has the value {value!r} ({kind}): {way_out}")
        self[pair] = column
        return column

    def number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def fill(self, ids: np.ndarray) -> np.ndarray | None:
        """Fill the numbers that wait in ``ids``, and give all values (None where all are 1)."""
        if not self.waiting:
            return None
        where = np.flatnonzero(ids == _PENDING)
        columns, amounts = zip(*self.waiting)
        ids[where] = columns
        values = np.ones(len(ids))
        values[where] = amounts
        return values


def _expanded(tokens: Iterable[Mapping[str, Any]], sizes: list[int]) -> Iterator[tuple[str, Any]]:
    """Pairs of all tokens with lists and nested dicts taken apart; ``sizes`` receives their number a token."""
    for token in tokens:
        pairs = list(_flat(token.items()))
        sizes.append(len(pairs))
        yield from pairs


def _flat(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for key, value in items:
        if isinstance(value, Mapping):
            for sub, inner in _flat(value.items()):
                yield f"{key}:{sub}", inner
        elif isinstance(value, _MANY):
            for item in value:
                if not isinstance(item, (str, bytes)):
                    raise _BadFeatureError(key, value, f"feature {key!r} lists {item!r}, which is not a string")
                yield key, item
        elif isinstance(value, np.ndarray):
            raise _BadFeatureError(
                key, value, f"feature {key!r} is an array; give its entries names, or use rf.Sequences"
            )
        else:
            yield key, value


def _prune(encoder: FeatureEncoder, made: Sequences) -> Sequences:
    """Leave out features that occur less than ``min_count`` times."""
    count = np.bincount(made.matrix.indices, minlength=made.n_features)
    keep = count >= encoder.min_count
    column = np.where(keep, np.cumsum(keep) - 1, _NOTHING).astype(np.int32)
    encoder.vocabulary_ = encoder.vocabulary_.keep(keep)
    counts = np.diff(made.matrix.indptr).astype(np.int64)
    return encoder._assemble(column[made.matrix.indices], made.matrix.data, counts, made.lengths)


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


def _place_of_feature(X: Sequence[Any], bad: _BadFeatureError) -> str:
    for i, tokens in enumerate(X):
        for t, token in enumerate(tokens):
            if any(value is bad.value for value in token.values()):
                return f"token {t} of sequence {i}"
    return "a token"


def _refuse_not_finite(
    values: np.ndarray, counts: np.ndarray, lengths: np.ndarray, ids: np.ndarray, names: list[str]
) -> None:
    entry = int(np.flatnonzero(~np.isfinite(values))[0])
    token = int(np.searchsorted(np.cumsum(counts), entry, side="right"))
    sequence = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    place = token - int(lengths[:sequence].sum())
    raise InputError(
        f"token {place} of sequence {sequence}: feature {names[ids[entry]]!r} is {values[entry]}; "
        f"features must be finite."
    )
