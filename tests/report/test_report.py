"""A report says what its definitions say, escapes what users wrote, and needs nothing but itself."""

import re
from random import Random

import html5lib
import numpy as np
import pytest
from nervaluate.evaluator import Evaluator

import rulefield as rf
from rulefield import metrics
from rulefield import rules as r
from rulefield.exceptions import InputError
from rulefield.report.certainty import certainty
from rulefield.report.effects import rule_effects
from rulefield.report.intervals import difference, drawn, f1_of, interval
from rulefield.report.marks import pieces
from rulefield.report.page import report_page, verdict
from rulefield.report.study import study

EVIL = "<script>alert(1)</script>"
RULES = [(r.segments("title") == 1).named("one <b>title</b>"), (r.segments("author") <= 1).soft(1.0)]


@pytest.fixture(scope="module")
def data():
    X, y = rf.datasets.make_citations(60, seed=3, noise=0.5)
    X[50] = [EVIL, '"><img src=x onerror=alert(2)>', *X[50][2:]]
    return X, y


@pytest.fixture(scope="module")
def crf(data):
    X, y = data
    return rf.ChainCRF(scheme="BIO", rules=RULES, max_iter=15).fit(X[:25], y[:25])


def elements_of(page):
    """Names and attributes of a page's elements; raises where it is not valid HTML."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return [(e.tag, e.attrib) for e in tree.iter() if isinstance(e.tag, str)]


def random_labels(random, n):
    types = [None, "a", "b", "c"]
    made, last = [], None
    for _ in range(n):
        kind = random.choice([*types, last, last])
        begins = kind is not None and (kind != last or random.random() < 0.3)
        made.append("O" if kind is None else f"{'B' if begins else 'I'}-{kind}")
        last = kind
    return made


def test_kinds_of_error_agree_with_nervaluate():
    random = Random(0)
    gold = [random_labels(random, random.randint(1, 12)) for _ in range(300)]
    found = [random_labels(random, len(row)) for row in gold]
    ours = metrics.span_errors(gold, found)
    theirs = Evaluator(gold, found, tags=["a", "b", "c"], loader="list").evaluate()["overall"]
    strict, exact = theirs["strict"], theirs["exact"]
    assert strict.correct == ours["correct"]
    assert strict.incorrect == ours["type"] + ours["boundary"] + ours["both"]
    assert (strict.missed, strict.spurious) == (ours["missed"], ours["spurious"])
    assert exact.correct == ours["correct"] + ours["type"]
    assert min(ours.values()) > 20


def test_pairs_count_every_segment_once():
    random = Random(1)
    gold = [random_labels(random, 9) for _ in range(50)]
    found = [random_labels(random, 9) for _ in range(50)]
    pairs, counts = metrics.span_pairs(gold, found), metrics.span_counts(gold, found)
    assert sum(p.gold is not None for p in pairs) == sum(c.gold for c in counts.values())
    assert sum(p.found is not None for p in pairs) == sum(c.predicted for c in counts.values())
    assert sum(p.kind == "correct" for p in pairs) == sum(c.correct for c in counts.values())


def test_intervals_hold_the_score_and_shrink():
    rng = np.random.default_rng(0)
    counts = np.stack([rng.binomial(8, 0.8, 400), np.full(400, 10), np.full(400, 10)], axis=1)
    wide, narrow = (interval(c, f1_of, drawn(c))[0] for c in (counts[:40], counts))
    assert wide.low < wide.value < wide.high
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)
    same = difference(counts, counts, f1_of)
    assert same == (0.0, 0.0, 0.0)  # paired: the same draws


def test_certainty_is_that_of_exact_sums():
    tokens = [["x", "y", "z"], ["y", "y", "x"], ["z", "x"]]
    gold = [["B-a", "I-a", "O"], ["O", "B-b", "B-a"], ["B-b", "O"]]
    crf = rf.ChainCRF(scheme="BIO", l2=3.0).fit(tokens, gold)
    rules = [(r.segments("a") <= 0).soft(1.5), (r.segments("b") >= 1)]
    labelings = crf.decode(tokens, rules=rules, probability=True)
    got = certainty(crf, tokens, [x.labels for x in labelings], rules)
    assert np.allclose(got.whole, [x.probability for x in labelings], atol=1e-9)
    tables = crf.predict_marginals(tokens, rules=rules)
    exact = [[line[label] for line, label in zip(table, x.labels)] for table, x in zip(tables, labelings)]
    assert np.allclose(np.concatenate(got.tokens), np.concatenate(exact), atol=1e-9)


def test_rule_effects_are_those_of_taking_the_rule_away(crf, data):
    X, y = data[0][25:], data[1][25:]
    for effect, rule in zip(rule_effects(crf, X, y, RULES, scheme="BIO", labels=crf.classes_), RULES):
        without = list(crf.predict(X, rules=[other for other in RULES if other is not rule]))
        full = list(crf.predict(X))
        assert effect.broken_without == sum(rule.violation(x, p, "BIO") > 0 for x, p in zip(X, without))
        assert effect.broken_with == sum(rule.violation(x, p, "BIO") > 0 for x, p in zip(X, full))
        assert effect.broken_in_gold == sum(rule.violation(x, p, "BIO") > 0 for x, p in zip(X, y))
        tokens = [(b, a, g) for rows in zip(without, full, y) for b, a, g in zip(*rows)]
        assert effect.fixed == sum(b != g and a == g for b, a, g in tokens)
        assert effect.broken == sum(b == g and a != g for b, a, g in tokens)
    assert effect.broken_without or effect.changes == ()


def test_pieces_join_to_the_text_and_mark_what_is_wrong():
    made = pieces(["a", "b", "c", "d"], ["B-x", "I-x", "O", "B-y"], "BIO", ["B-x", "O", "O", "B-y"])
    assert [(p.type, p.parts) for p in made] == [
        ("x", (("a", False), ("b", True))),
        (None, (("c", False),)),
        ("y", (("d", False),)),
    ]
    nested = pieces(["a", "b"], ["B-x/B-p", "I-x/B-q"], "BIO")
    assert [p.type for p in nested] == ["x/p", "x/q"]


def test_page_is_valid_escaped_and_alone(crf, data, tmp_path):
    X, y = data
    page = rf.write_report(crf, X[25:], y[25:], tmp_path / "r.html", title=EVIL, data=EVIL).read_text()
    elements = elements_of(page)
    assert not {"script", "img", "link", "iframe", "object"} & {name for name, _ in elements}
    for name, attributes in elements:
        assert not [key for key in attributes if key.startswith("on") or key == "src"]
        assert attributes.get("href", "#").startswith("#"), name
    assert "one <b>" not in page
    assert "&lt;script&gt;" in page
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    headings = re.findall(r"<h(\d)", page)
    assert headings[0] == "1"
    assert all(int(b) <= int(a) + 1 for a, b in zip(headings, headings[1:]))


def test_the_verdict_counts_what_is_right_confused_and_doubted(crf, data):
    X, y = data
    made = study(crf, X[25:], y[25:])
    wrong = [i for i, (gold, labeling) in enumerate(zip(made.gold, made.labelings)) if gold != labeling.labels]
    first, *confusions, last = verdict(made)
    assert first == f"{35 - len(wrong)} of 35 sequences are right from end to end."
    names, table = made.confusion
    np.fill_diagonal(table := table.copy(), 0)
    assert 1 <= len(confusions) <= 2
    assert confusions[0].startswith(f"{table.max()} ")
    doubted = [i for i, p in enumerate(made.certainty.whole) if p < 0.5]
    share = len(set(doubted) & set(wrong)) / len(wrong)
    assert f"The {len(doubted) / 35:.0%} of sequences" in last
    assert f"hold {share:.0%} of the wrong ones" in last
    right = study(crf, X[25:26], [made.labelings[0].labels])
    assert verdict(right) == ["All 1 sequences are right."]


def test_two_models_are_compared_paired(crf, data, tmp_path):
    X, y = data
    weak = rf.ChainCRF(scheme="BIO", max_iter=2).fit(X[:4], y[:4])
    old, new = study(weak, X[25:], y[25:], name="old"), study(crf, X[25:], y[25:], name="new")
    page = report_page(new, old)
    assert elements_of(page)
    assert "Paired" in page
    assert " better" in page


def test_segments_ruled_and_parsers_are_reported(data, tmp_path):
    X, y = data
    segments = rf.SegmentCRF(scheme="BIO", max_iter=3).fit(X[:15], y[:15])
    assert rf.write_report(segments, X[30:40], y[30:40], tmp_path / "s.html").stat().st_size > 1000
    texts, spans = ["Ada Lovelace, 1843", "Alan Turing, 1936"], [[(0, 12, "name")], [(0, 11, "name")]]
    parser = rf.TextParser().fit(texts, spans)
    assert "Lovelace" in rf.write_report(parser, texts, spans, tmp_path / "p.html").read_text()
    ruled = rf.RuledCRF(rf.ChainCRF(scheme="BIO", max_iter=5), rules=RULES).fit(X[:20], y[:20])
    assert "RuledCRF" in rf.write_report(ruled, X[30:40], y[30:40], tmp_path / "r.html").read_text()


def test_mistakes_are_explained(crf, data, tmp_path):
    X, y = data
    with pytest.raises(InputError, match="got none"):
        rf.write_report(crf, X[:1], [[None] * len(X[0])], tmp_path / "r.html")
    with pytest.raises(InputError, match="needs a ChainCRF"):
        rf.write_report(object(), X[:1], y[:1], tmp_path / "r.html")


def test_the_command_writes_the_page(crf, data, tmp_path, capsys):
    from rulefield.cli.options import ReadOptions
    from rulefield.cli.pages.report import report as report_command

    crf.save(tmp_path / "m.rf")
    rows = ["\n".join(f"{a}\t{b}" for a, b in zip(*pair)) for pair in zip(data[0][40:50], data[1][40:50])]
    (tmp_path / "t.conll").write_text("\n\n".join(rows) + "\n")
    out = tmp_path / "r.html"
    report_command([str(tmp_path / "m.rf"), str(tmp_path / "t.conll")], ReadOptions(), str(out), jobs=1)
    assert "m.rf on t.conll" in out.read_text()
    assert "10 sequences" in capsys.readouterr().err
    with pytest.raises(InputError, match="two models"):
        report_command([str(tmp_path / "m.rf")], ReadOptions(), str(out), jobs=1)
