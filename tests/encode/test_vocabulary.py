"""A vocabulary is a dictionary from strings to the order of their first appearance."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield.encode import vocabulary as module
from rulefield.encode.vocabulary import Vocabulary
from rulefield.kernels.jit import Kernel

strings = st.lists(st.text(alphabet="ab\n\0é\ud800", max_size=3), max_size=30)


def dictionary(batches):
    table = {}
    return [[table.setdefault(s, len(table)) for s in batch] for batch in batches], table


@settings(max_examples=150, deadline=None)
@given(st.lists(strings, max_size=4), strings)
def test_it_is_a_dictionary(batches, asked):
    vocabulary = Vocabulary()
    expected, table = dictionary(batches)
    assert [vocabulary.add(batch).tolist() for batch in batches] == expected
    assert vocabulary.find(asked).tolist() == [table.get(s, -1) for s in asked]
    assert vocabulary.names == list(vocabulary) == [vocabulary[j] for j in range(len(table))] == list(table)
    assert len(vocabulary) == len(table)
    assert all(name in vocabulary for name in table)
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy.find(asked).tolist() == vocabulary.find(asked).tolist()
    assert copy.names == vocabulary.names


groups = st.lists(st.lists(st.text(alphabet="ab\n", max_size=2), max_size=4), max_size=8)
names = st.text(alphabet="aé\n", max_size=20)  # words of eight bytes are hashed and compared


@settings(max_examples=150, deadline=None)
@given(st.lists(names, max_size=12), st.lists(st.lists(names, max_size=4), max_size=8), st.booleans())
def test_known_names_are_numbered_and_others_left_out(known, lists, small):
    vocabulary, number = Vocabulary(known), {name: i for i, name in enumerate(dict.fromkeys(known))}
    lists = [*lists, known[:3], [name + "a" for name in known[3:6]]]
    with pytest.MonkeyPatch.context() as patch:
        if not small:
            vocabulary._number_hashed(*module._hashed([["x"]], 1), False)
        patch.setattr(module, "affordable", lambda seconds: small)
        patch.setattr(Kernel, "any_loaded", not small)
        ids, counts = vocabulary.number_known(lists, grow=False)
    expected = [[number[name] for name in group if name in number] for group in lists]
    assert counts.tolist() == list(map(len, expected))
    assert ids.tolist() == [i for group in expected for i in group]


@settings(max_examples=100, deadline=None)
@given(groups, st.integers(1, 3))
def test_groups_are_numbered_as_their_strings(lists, portion):
    whole, parts = Vocabulary(), Vocabulary()
    flat = [string for group in lists for string in group]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PORTION", portion)
        assert parts.number([tuple(group) for group in lists], grow=True).tolist() == whole.add(flat).tolist()
        assert parts.number(map(frozenset, lists), grow=False).size == sum(len(set(group)) for group in lists)


def test_many_names():
    rng = np.random.default_rng(0)
    lists = [[f"name{i}" for i in row] for row in rng.integers(0, 20_000, size=(4_000, 12))]
    vocabulary = Vocabulary()
    expected, table = dictionary([[name for group in lists for name in group]])
    assert vocabulary.number(lists, grow=True).tolist() == expected[0]
    assert vocabulary.find(["name19999999", *table]).tolist() == [-1, *table.values()]


def test_equal_hashes_do_no_harm():
    """A slot with the right hash but another name of the same length is passed over."""
    other = Vocabulary(["cd"])
    slot = int(np.flatnonzero(other._table[::2])[0])
    vocabulary = Vocabulary(["ab"])
    own = int(np.flatnonzero(vocabulary._table[::2])[0])
    assert own != slot
    vocabulary._table[2 * slot] = other._table[2 * slot]
    vocabulary._table[2 * slot + 1] = vocabulary._table[2 * own + 1]
    assert vocabulary.find(["cd", "ab"]).tolist() == [-1, 0]
    assert vocabulary.add(["cd"]).tolist() == [1]
    assert vocabulary.find(["cd"]).tolist() == [1]


def test_only_strings():
    with pytest.raises(TypeError):
        Vocabulary(["a", 3])


def test_nothing():
    vocabulary = Vocabulary()
    assert vocabulary.add([]).tolist() == []
    assert vocabulary.find(["x", ""]).tolist() == [-1, -1]
    assert vocabulary.add([""]).tolist() == [0]
    assert vocabulary.names == [""]


def test_names_are_found_after_the_table_was_dropped():
    names = Vocabulary(["a", "b", "c"])
    names.drop_table()
    assert names.find(["c", "x", "a"]).tolist() == [2, -1, 0]
    assert names.add(["d", "b"]).tolist() == [3, 1]
