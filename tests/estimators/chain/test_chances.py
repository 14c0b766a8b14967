"""Probabilities of labelings, labels and segments against all labelings, with and without rules and known labels."""

from itertools import product

import numpy as np
import pytest

from rulefield import ChainCRF, TextParser
from rulefield import rules as r
from rulefield.encode.spans import SegmentTable, spans
from rulefield.inference.sequences.reading import find_segments

X = [["Ada", "Lovelace", "1843"], ["Bob", "1936"], ["1999", "Eve", "Fox"], ["Al", "Bo", "Cy", "2001"]]
Y = [
    ["B-name", "I-name", "B-year"],
    ["B-name", "B-year"],
    ["B-year", "B-name", "I-name"],
    ["O", "B-name", "I-name", "O"],
]
RULES = [r.segments("name") <= 1, (r.segments("year") <= 1).soft(0.8), r.before("name", "year").soft(0.5)]
RULES_OF_TOKENS = [
    r.at(r.token_equals("Bob"), here="O").soft(1.5),
    (r.segments("name") <= 1).soft(0.7, per="once"),
    r.at(r.token_equals("1999"), here="year").soft(0.9, per="once"),
]
KNOWN = [["B-year", None, None], None, [None, {"B-name", "O"}, None], None]


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(scheme="BIO", max_iter=6).fit(X, Y)


def listed(crf, x, rules, known):
    """Labelings that are possible, and their probabilities."""
    names, data = crf.classes_, crf._encoder.transform([x])
    potentials = crf._decoder().potentials(data, 0)
    found, values = [], []
    for ids in product(range(len(names)), repeat=len(x)):
        labels = [names[i] for i in ids]
        if known is not None and any(
            k is not None and a not in (k if isinstance(k, set) else {k}) for a, k in zip(labels, known)
        ):
            continue
        cost = sum(rule.cost(float(rule.violation(x, labels, "BIO"))) for rule in rules)
        value = potentials.score(np.array(ids)) - cost
        if value > -np.inf:
            found.append(labels)
            values.append(value)
    return found, np.exp(values - np.logaddexp.reduce(values))


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("rules", [[], RULES, RULES_OF_TOKENS])
@pytest.mark.parametrize("known", [None, KNOWN])
def test_probabilities_of_labelings_and_segments_are_those_of_all_labelings(crf, rules, known, tolerance):
    marginals = crf.predict_marginals(X, rules=rules, known=known, tolerance=tolerance)
    decoded = crf.decode(X, rules=rules, known=known, probability=True, tolerance=tolerance)
    table = SegmentTable([str(label) for label in crf.classes_], "BIO")
    batch = crf._encode(X)
    batch.allowed = None if known is None else crf._possible(known, batch)
    ids = np.array([table.labels.index(label) for one in decoded for label in one.labels])
    segments = find_segments(table, ids, batch.data.lengths)
    chance, errors, *_ = crf._answers(rules, "raise", 1).segment_chances(batch, segments, table, tolerance)
    for i, x in enumerate(X):
        labelings, chances = listed(crf, x, rules, None if known is None else known[i])
        assert decoded[i].labels == labelings[int(np.argmax(chances))]
        assert abs(decoded[i].probability - chances.max()) <= decoded[i].probability_error + 1e-9
        assert tolerance > 0 or decoded[i].probability_error == 0
        own = segments.of(i, int(batch.data.offsets[i]), table)
        assert [span for span, _ in own] == spans(decoded[i].labels, "BIO")
        part = slice(segments.pointer[i], segments.pointer[i + 1])
        for (span, _), p, error in zip(own, chance[part], errors[part]):
            exact = sum(c for labels, c in zip(labelings, chances) if span in spans(labels, "BIO"))
            assert abs(p - exact) <= error + 1e-9
        for t, row in enumerate(marginals[i]):
            for label, p in row.items():
                exact = sum(c for labels, c in zip(labelings, chances) if labels[t] == label)
                assert p == pytest.approx(exact, abs=tolerance + 1e-9)


@pytest.mark.parametrize("rules", [[], [(r.segments("year") <= 3).soft(1.0)]])
def test_known_segments_are_sure(rules):
    texts, marks = ["Ada 1843", "Bob 1936", "Eve 2001"], [[(0, 3, "name"), (4, 8, "year")]] * 3
    parser = TextParser().fit(texts, marks)
    found = parser.parse("Ada 1843", known=[(0, 3, "year")], rules=rules)
    assert found.spans[0].probability == pytest.approx(1.0)
    assert found.spans[1].probability >= found.probability - 1e-9


def test_many_rules_leave_no_text_without_a_probability(crf):
    rules = [(r.count(a) <= k).soft(0.01 * k + 0.02 * j) for j, a in enumerate(("name", "year")) for k in range(60)]
    for one in crf.decode(X, rules=rules, probability=True):
        assert one.probability is not None
        assert one.probability_error <= 0.05
        assert one.probability_reason
