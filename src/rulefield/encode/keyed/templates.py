"""Keys of the features of CRF++ templates: the values of columns are numbered once, and a line is one key of its cells."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from rulefield.encode.keyed.groups import MOST_SLOTS, CrowdedError, Neighbors, split_keys
from rulefield.encode.keyed.names import NamedFeature, joined_names, literal, stored
from rulefield.encode.templates import Template, padded
from rulefield.encode.vocabulary import Vocabulary
from rulefield.kernels.keys import FIELD, PAIR

MOST_CELLS = 3
MOST_TYPES = 1 << FIELD
_BITS = {0: 0, 1: 0, 2: PAIR, 3: FIELD}
"""Bits of each cell's value, by the number of cells in a line."""


class TemplateKeys:
    """Turns tokens into one key per line of a template.

    Parameters
    ----------
    template : Template
        At most 127 lines of at most three cells.
    """

    def __init__(self, template: Template):
        self.template, self.text, self.lines = template, template.text, template.lines
        self.width, self.reach = template.extent
        self.number: dict[Any, int] = {}
        self._values = Vocabulary(f"_B{sign}{k}" for sign in "-+" for k in range(1, self.reach + 1))
        self._table = np.zeros((0, self.width), np.int64)
        self._most = 1 << (FIELD if any(len(line.cells) == MOST_CELLS for line in self.lines) else PAIR)

    @staticmethod
    def can(features: Any) -> bool:
        """Whether features can be made by keys."""
        if type(features) is not Template:
            return False
        lines = features.lines
        return len(lines) <= MOST_SLOTS and max(len(line.cells) for line in lines) <= MOST_CELLS

    def serves(self, features: Any) -> bool:
        """Whether keys are those of these features, as they are now."""
        return features is self.template and features.text == self.text

    def keys(self, X: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the keys of every token, uint64 (n_tokens, number of lines)."""
        lengths = np.fromiter(map(len, X), np.int64, len(X))
        table = self._table_of(X)
        around, outside = Neighbors(lengths), np.arange(2 * self.reach)
        cells = {
            (row, column): around.at(row, table[:, column], outside[: self.reach], outside[self.reach :])
            for row, column in set(chain.from_iterable(line.cells for line in self.lines))
        }
        made = around.empty_keys(len(self.lines))
        for k, line in enumerate(self.lines):
            value = np.zeros(len(table), np.int64)
            for cell in line.cells:
                value = (value << _BITS[len(line.cells)]) | cells[cell]
            made[:, k] |= value.astype(np.uint64)
        return made

    def names(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the joined names of the features of each key, and how many each has (one)."""
        return joined_names(len(keys), [(where, [self._named(k, values)]) for k, where, values in split_keys(keys)])

    def _named(self, slot: int, values: np.ndarray) -> NamedFeature:
        """NamedFeature of the keys of one line."""
        line, n = self.lines[slot], len(values)
        bits = _BITS[len(line.cells)]
        pieces = [literal(line.texts[0], n)]
        for k, text in enumerate(line.texts[1:], 1):
            number = values >> (bits * (len(line.cells) - k))
            pieces += [stored(self._values, number & ((1 << bits) - 1) if bits else number), literal(text, n)]
        return NamedFeature(None, pieces)

    def _table_of(self, X: Sequence[Sequence[Any]]) -> np.ndarray:
        """Numbers of the values of all columns of all tokens, (n_tokens, width)."""
        flat = [token if isinstance(token, str) else tuple(token) for token in chain.from_iterable(X)]
        types = np.fromiter(map(self.number.get, flat, repeat(-1)), np.int64, len(flat))
        new = np.flatnonzero(types < 0).tolist()
        if new:
            tokens = dict.fromkeys([flat[i] for i in new])
            if len(self.number) + len(tokens) > MOST_TYPES:
                raise CrowdedError
            rows = [(token,) if isinstance(token, str) else token for token in tokens]
            if min(map(len, rows)) < self.width:
                for i, sequence in enumerate(X):
                    padded(sequence, i, self.width, 0)
            ids = self._values.add(chain.from_iterable(row[: self.width] for row in rows))
            if len(self._values) > self._most:
                raise CrowdedError
            self._table = np.concatenate([self._table, ids.reshape(-1, self.width).astype(np.int64)])
            self.number.update(zip(tokens, range(len(self.number), len(self._table))))
            types[new] = [self.number[flat[i]] for i in new]
        return self._table[types]
