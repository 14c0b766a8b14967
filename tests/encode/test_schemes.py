"""Schemes and segments against definitions on whole sequences."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.label_schemes import conlleval_chunks, pattern, pieces, possible, split
from rulefield.encode.labels import LabelEncoder, check_possible
from rulefield.encode.schemes import allowed_transitions, as_scheme, format_path, parse, segment_starts
from rulefield.encode.spans import SegmentTable, convert, spans
from rulefield.exceptions import InputError, LabelError

PREFIXES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU", "IOE1": "IE", "IOE2": "IE"}
SCHEMES = list(PREFIXES)


def flat_labels(scheme, types="xy"):
    return ["O", *(f"{p}-{k}" for p in PREFIXES[scheme] for k in types)]


def deep_labels(scheme):
    """Labels of two and three levels, leaves at different depth, a gap in the middle."""
    p = PREFIXES[scheme]
    two = [f"{a}-a/{b}-x" for a in p for b in p]
    return ["O", *(f"{a}-a" for a in p), *two, f"{p[1]}-a/O", f"{p[0]}-b/{p[0]}-x", f"O/{p[0]}-x", f"O/{p[1]}-x"]


def is_possible(ids, masks):
    allowed, start, end = masks
    return start[ids[0]] and end[ids[-1]] and all(allowed[a, b] for a, b in pairwise(ids))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_allow_exactly_the_possible_flat_sequences(scheme):
    labels = flat_labels(scheme)
    masks = allowed_transitions(labels, scheme)
    for n in (1, 2, 3, 4):
        for ids in product(range(len(labels)), repeat=n):
            assert is_possible(ids, masks) == possible([labels[i] for i in ids], scheme), [labels[i] for i in ids]


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BILOU", "IOE2"])
def test_one_type_is_a_regular_language(scheme):
    labels = flat_labels(scheme, "x")
    masks = allowed_transitions(labels, scheme)
    for ids in product(range(len(labels)), repeat=5):
        word = "".join(labels[i][0] for i in ids)
        assert is_possible(ids, masks) == bool(pattern(scheme).match(word)), word


@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_allow_exactly_the_possible_nested_sequences(scheme):
    labels = deep_labels(scheme)
    masks = allowed_transitions(labels, scheme)
    for ids in product(range(len(labels)), repeat=3 if len(labels) < 12 else 2):
        assert is_possible(ids, masks) == possible([labels[i] for i in ids], scheme), [labels[i] for i in ids]


def three_levels(scheme):
    p = PREFIXES[scheme]
    part = st.sampled_from(["O", *(f"{a}-{k}" for a in p for k in "xy")])
    return st.lists(st.lists(part, min_size=1, max_size=3).map("/".join), min_size=1, max_size=6)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_three_levels(scheme, data):
    labels = data.draw(three_levels(scheme))
    names = sorted(set(labels))
    ids = [names.index(label) for label in labels]
    assert is_possible(ids, allowed_transitions(names, scheme)) == possible(labels, scheme)


def random_possible(scheme, rng, n, labels):
    """A random possible sequence, by a random walk that can still end."""
    allowed, start, end = allowed_transitions(labels, scheme)
    alive = [end]
    for _ in range(n - 1):
        alive.append((allowed & alive[-1][None, :]).any(axis=1))
    alive = alive[::-1]
    now = rng.choice(np.flatnonzero(start & alive[0]))
    ids = [now]
    for t in range(1, n):
        now = rng.choice(np.flatnonzero(allowed[now] & alive[t]))
        ids.append(now)
    return [labels[i] for i in ids]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_of_possible_sequences_at_all_levels(scheme):
    rng = np.random.default_rng(0)
    for _ in range(200):
        labels = random_possible(scheme, rng, int(rng.integers(1, 9)), deep_labels(scheme))
        expected = pieces([split(label) for label in labels], scheme)
        got = [tuple(s) for s in spans(labels, scheme, level=None)]
        assert sorted(got) == sorted((a, b, kind) for a, b, _, kind in expected), labels
        outer = [tuple(s) for s in spans(labels, scheme)]
        assert outer == sorted((a, b, kind) for a, b, level, kind in expected if level == 0)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "IOE1", "IOE2"])
def test_spans_of_any_sequence_are_those_of_conlleval(scheme):
    labels = flat_labels(scheme)
    for n in (1, 2, 3, 4):
        for tags in product(labels, repeat=n):
            assert [tuple(s) for s in spans(tags, scheme)] == conlleval_chunks(tags), tags


def test_spans_without_a_scheme_are_runs():
    assert spans(["a", "a", "O", "b", "a"], None) == [(0, 2, "a"), (2, 3, "O"), (3, 4, "b"), (4, 5, "a")]


def test_segment_starts_count_segments():
    labels = ["O", "B-a", "I-a", "I-a/B-x", "I-a/I-x", "B-a/B-x"]
    starts = segment_starts(labels, "BIO")
    assert starts.shape == (2, len(labels) + 1, len(labels))
    rng = np.random.default_rng(1)
    for _ in range(100):
        ids = rng.integers(0, len(labels), size=6)
        before = [len(labels), *ids[:-1]]
        names = [labels[i] for i in ids]
        total = sum(starts[:, b, i].sum() for b, i in zip(before, ids))
        assert total == len(spans(names, "BIO", level=None))


def test_table_finds_segments_of_many_sequences_at_once():
    labels = deep_labels("BIO")
    table = SegmentTable(labels, "BIO")
    lengths = np.array([0, 4, 1, 0, 0, 7, 0])
    for seed in range(30):
        ids = np.random.default_rng(seed).integers(0, len(labels), size=12)
        for level in range(table.depth):
            first, last, kind = table.find(ids, lengths, level)
            got = [(a, b + 1, table.types[k]) for a, b, k in zip(first, last, kind)]
            expected, offset = [], 0
            for n in lengths:
                names = [labels[i] for i in ids[offset : offset + n]]
                if n and level < max(len(split(x)) for x in names):
                    found = spans(names, "BIO", level=level)
                    expected += [(a + offset, b + offset, k) for a, b, k in found]
                offset += n
            assert got == expected


@pytest.mark.parametrize("source", SCHEMES)
@pytest.mark.parametrize("target", SCHEMES)
def test_conversion_keeps_segments_and_is_possible(source, target):
    rng = np.random.default_rng(3)
    for _ in range(60):
        labels = random_possible(source, rng, int(rng.integers(1, 8)), deep_labels(source))
        made = convert(labels, source, target)
        assert possible(made, target), (labels, made)
        assert spans(made, target, level=None) == spans(labels, source, level=None)
        assert [parse(x, source) for x in convert(made, target, source)] == [parse(x, source) for x in labels]


def test_conversion_from_and_to_plain_labels():
    assert convert(["a", "a", "O", "b/c"], None, "BIO") == ["B-a", "I-a", "O", "B-b/B-c"]
    assert convert(["B-a", "B-a", "O", "B-b/B-c"], "BIO", None) == ["a", "a", "O", "b/c"]


def test_parse_and_format():
    path = parse("I-authors/B-person/B-first", "BIO")
    assert [tuple(c) for c in path] == [("I", "authors"), ("B", "person"), ("B", "first")]
    assert format_path(path, "BIO") == "I-authors/B-person/B-first"
    assert format_path(parse("U-x", "BILOU"), "BIOES") == "S-x"
    assert parse("O", "BIO") == () == parse("O/O", "BIO")
    assert parse("B-a-b", "BIO")[0].type == "a-b"


@pytest.mark.parametrize(
    ("name", "scheme"), [(None, "none"), ("bio", "BIO"), ("IOB2", "BIO"), ("bilou", "BILOU"), ("none", "none")]
)
def test_scheme_names(name, scheme):
    assert as_scheme(name) == scheme


def test_bad_scheme_and_labels_are_named():
    with pytest.raises(InputError, match="scheme must be one of none, BIO"):
        as_scheme("BIOX")
    with pytest.raises(LabelError, match="'title' does not fit scheme BIO"):
        allowed_transitions(["O", "title"], "BIO")
    with pytest.raises(LabelError, match="'S-x' does not fit scheme BIO"):
        parse("S-x", "BIO")


def refuse(y, scheme, match):
    encoder = LabelEncoder()
    labels = encoder.fit_encode(y)
    with pytest.raises(LabelError, match=match):
        check_possible(labels, encoder.classes_, scheme, allowed_transitions(encoder.classes_, scheme))


def test_impossible_gold_is_named():
    good = ["O", "B-x", "I-x"]
    refuse([good, ["O", "I-x"]], "BIO", "sequence 1, token 1: 'I-x' after 'O' is impossible under scheme BIO")
    refuse([good, [], ["I-x", "I-x"]], "BIO", "sequence 2, token 0: 'I-x' cannot begin a sequence")
    refuse([["B-x", "E-x"], ["S-x"], ["B-x"]], "BIOES", "sequence 2, token 0: 'B-x' cannot end a sequence")
    refuse([good, ["O", {"I-x"}, None]], "BIO", "sequence 1, token 1: 'I-x' after 'O'")
    refuse([good, ["O", {"I-x", "I-y"}, None]], "BIO", "sequence 1: whatever the unknown labels")
    refuse([["B-x", "E-x"], [None, {"B-x", "I-x"}]], "BIOES", "sequence 1: whatever")


def test_steps_between_sequences_are_not_steps():
    encoder = LabelEncoder()
    labels = encoder.fit_encode([["O", "B-x"], [], ["O"], ["O", "B-x"]])
    allowed, start, end = allowed_transitions(encoder.classes_, "BIO")
    allowed[encoder.classes_.index("O"), encoder.classes_.index("O")] = False
    check_possible(labels, encoder.classes_, "BIO", (allowed, start, end))


def test_possible_gold_passes():
    for y in ([["B-x", "I-x"], [], ["O"]], [["B-x", None, "I-x"], [None], [{"O", "I-x"}]]):
        encoder = LabelEncoder()
        labels = encoder.fit_encode(y)
        check_possible(labels, encoder.classes_, "BIO", allowed_transitions(encoder.classes_, "BIO"))
