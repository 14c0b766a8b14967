"""DocumentTagger: what is special to documents; the rest is in the contract."""

import numpy as np
import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.exceptions import InputError


def cells(seed, n_cells=6, ruled=True):
    """One column of cells with 1 to 4 lines: S, or B I* E; in a quarter of the cells the ruling above is missing."""
    rng = np.random.default_rng(seed)
    boxes, labels, rulings, at = [], [], [], 10.0
    for _ in range(n_cells):
        if ruled and rng.random() > 0.25:
            rulings.append([0, at - 4, 200, at - 3])
        n = int(rng.integers(1, 5))
        for k in range(n):
            boxes.append([10 + rng.normal(), at, 100 + 20 * rng.normal(), at + 10])
            labels.append("S" if n == 1 else "B" if k == 0 else "E" if k == n - 1 else "I")
            at += 14 + 2 * rng.normal()
        at += 3
    return rf.formats.Page(boxes, 200, 400, labels=labels, separators=rulings)


ORDER = [
    r.along("below", r.followed_by(["B", "I"], ["I", "E"], level="token")).named("a cell goes on"),
    r.along("below", r.followed_by(["E", "S"], ["B", "S"], level="token")).named("a cell begins"),
]


@pytest.fixture(scope="module")
def tagger():
    return rf.DocumentTagger().fit([cells(seed) for seed in range(25)])


def test_separators_and_order_help(tagger):
    new = [cells(100 + seed) for seed in range(25)]
    gold = [page.labels for page in new]
    blind = rf.DocumentTagger(separators=False).fit([cells(seed) for seed in range(25)])
    assert tagger.score(new, gold) > blind.score(new, gold)
    ruled = tagger.decode(new, rules=ORDER)
    assert all(one.status == "optimal" and not one.broken for one in ruled)
    text = ["".join(one.labels) for one in ruled]
    assert all(pair not in row for row in text for pair in ("BB", "BS", "IB", "IS", "EI", "EE", "SI", "SE"))
    soft = tagger.decode(new, rules=[rule.soft(0.5) for rule in ORDER])
    assert all(one.status == "optimal" for one in soft)


def shelves(seed, n_rows=8):
    """Rows of three columns under rulings of two kinds that look alike: all lines below one agree on which it is."""
    rng = np.random.default_rng(seed)
    boxes, labels, rulings = [], [], []
    for row in range(n_rows):
        begins, top = rng.random() < 0.5, 60.0 * row + 10
        rulings.append([0, top - 6, 300, top - 5])
        for column in range(3):
            told = rng.random() < 0.5  # what shows the kind of ruling shows in half of the lines only
            left, width, lower = 100 * column + 10, 20 if told and begins else 60 if told else 40, top + 12 * column
            boxes.append([left, lower, left + width, lower + 10])
            labels.append("first" if begins else "more")
    return rf.formats.Page(boxes, 300, 60 * n_rows, labels=labels, separators=rulings)


def test_lines_along_a_ruling_agree_on_what_it_is(tmp_path):
    train, new = [shelves(seed) for seed in range(30)], [shelves(100 + seed) for seed in range(30)]
    gold = [page.labels for page in new]
    model = rf.DocumentTagger(model=rf.GraphCRF(l2=1.0, random_state=0)).fit(train)
    plain = rf.DocumentTagger(separators=False).fit(train)  # lines of a row do not see each other
    assert model.score(new, gold) > plain.score(new, gold) + 0.1
    assert all(one.status == "optimal" for one in model.decode(new))
    model.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert again.predict(new).tolist() == model.predict(new).tolist()
    assert again.predict([rf.formats.Page(new[0].boxes)])[0] == model.predict([rf.formats.Page(new[0].boxes)])[0]


def test_relations_serve_rules_about_places(tagger):
    page = cells(7)
    rule = r.for_each("line", r.implies(r.this().is_("B"), r.any_of(r.related("below").is_(["I", "E"]))))
    assert not tagger.decode([page], rules=[rule])[0].broken
    few = r.for_each("page", r.at_most(1, r.related("boxes").is_("B")))
    assert tagger.predict([page], rules=[few])[0].count("B") <= 1


def test_pages_that_belong_together_are_one_document(tagger):
    two = [[cells(1), cells(2)], [cells(3), cells(4)]]
    gold = [[label for page in pages for label in page.labels] for pages in two]
    model = rf.DocumentTagger().fit(two, gold)
    assert [len(row) for row in model.predict(two)] == [len(row) for row in gold]
    assert [page.n_boxes for page in model.label(two)[0]] == [page.n_boxes for page in two[0]]
    shares = model.predict_marginals(two)[0]
    assert shares.shape == (len(gold[0]), 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_boxes_without_labels_are_context(tmp_path):
    def page(seed):
        one = cells(seed)
        whole = [0, 0, 200, 400]
        return rf.formats.Page(
            [whole, *one.boxes], types=["block", *one.types], labels=[None, *one.labels], separators=one.separators
        )

    model = rf.DocumentTagger().fit([page(seed) for seed in range(6)])
    found = model.predict([page(9)])[0]
    assert found[0] is None
    assert None not in found[1:]
    model.save(tmp_path / "m.rf")
    assert rf.load(tmp_path / "m.rf").predict([page(9)])[0] == found


def test_explanations_name_features(tagger):
    told = tagger.explain(cells(3))
    assert len(told) == cells(3).n_boxes
    names = {name.split("~")[0] for row in told for name, _ in row}
    assert names & {"separator before above", "boxes above in region", "gap above", "boxes in region"}


def test_bad_input_gets_a_sentence(tagger):
    page = cells(0)
    for bad, told in (([], "no document"), (page, "list of pages"), ([3], "item 0"), ("x", "list of pages")):
        with pytest.raises(InputError, match=told):
            tagger.predict(bad)
    with pytest.raises(InputError, match=r"y\[0\] must hold"):
        tagger.fit([page], [["B"]])
    with pytest.raises(InputError, match="at least one label"):
        tagger.fit([rf.formats.Page(page.boxes)])
    with pytest.raises(InputError, match="types"):
        tagger.predict([rf.formats.Page([[0, 0, 1, 1]], types=["word"])])
