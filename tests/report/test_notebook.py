"""What notebooks show: every representation is whole HTML, and nothing that users wrote becomes markup."""

import html5lib
import matplotlib as mpl
import numpy as np
import pytest
from sklearn.model_selection import LearningCurveDisplay

import rulefield as rf
from rulefield import plots
from rulefield import rules as r
from rulefield.report.effects import rule_effects

mpl.use("Agg")
EVIL = "<script>alert(1)</script>"
X = [[EVIL, "Lovelace", "1843"], ["Alan", "<b>Turing", "1936"], ["Emmy", "Noether", "1918"]] * 2
Y = [["B-<i>name", "I-<i>name", "B-year"]] * 6


@pytest.fixture(scope="module")
def crf():
    rules = [(r.segments("<i>name") <= 1).named(EVIL), r.before("year", "<i>name").soft(0.1).named("<u>order")]
    return rf.ChainCRF(scheme="BIO", rules=rules, max_iter=8).fit(X, Y)


def shown(thing):
    html = thing._repr_html_()
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parseFragment(html)
    names = {e.tag for e in tree.iter() if isinstance(e.tag, str)}
    assert not {"script", "i", "u"} & names, names
    return html


def test_results_are_shown_escaped(crf):
    labeling = crf.decode(X[:1], probability=True)[0]
    assert "optimal" in shown(labeling)
    assert "&lt;u&gt;order" in shown(labeling)
    assert "&lt;script" in shown(crf.explain(X[0]))
    assert "transitions" in shown(crf.explain())
    assert "&lt;script" in shown(rule_effects(crf, X, Y, crf.rules, scheme="BIO")[0])
    parser = rf.TextParser().fit([f"{EVIL} Ada 1843"], [[(0, 25, "<i>x"), (26, 29, "name")]])
    assert "&lt;script" in shown(parser.parse(f"{EVIL} Ada 1843"))
    joint = rf.formats.Labeling({"ner": ["B-<i>x"], "pos": ["<b>"]}, 0.0, 0.0, 0.0, "optimal", "auto")
    assert "<b>ner</b>" in shown(joint)


def test_rule_reports_are_shown_escaped(crf):
    ruled = rf.RuledCRF(crf, rules=[r.before("year", "<i>name").soft("learn").named(EVIL)], cv="prefit").fit(X, Y)
    assert "&lt;script" in shown(ruled.report_[0])


def test_models_are_shown_with_what_they_hold(crf):
    html = crf._repr_html_()  # scikit-learn's diagram has a script of its own
    own = html[html.rindex('<div class="rf">') :]
    assert "iterations" in own
    assert "&lt;script" in own
    assert "<script" not in own
    assert '<div class="rf">' not in rf.ChainCRF()._repr_html_()


def test_displays_hold_the_numbers_and_draw_them(crf):
    confusion = plots.SpanConfusionDisplay.from_estimator(crf, X, Y)
    assert confusion.matrix.sum() == 12
    assert confusion.names[-1] == "(nothing)"
    assert sorted(t.get_text() for t in confusion.ax_.texts) == ["6", "6"]
    calibration = plots.CalibrationDisplay.from_estimator(crf, X, Y)
    assert (len(calibration.y_prob), len(calibration.prob_true)) == (18, len(calibration.prob_pred))
    table = plots.TransitionDisplay.from_estimator(crf)
    assert table.weights.shape == (3, 3)
    assert np.isneginf(table.weights).any()
    assert [axes.get_ylabel() for axes in table.figure_.axes] == ["from", "weight"]
    assert LearningCurveDisplay.from_estimator(crf, X, Y, cv=2, train_sizes=[0.5, 1.0]).ax_ is not None


def test_a_display_draws_where_it_is_told(crf):
    from matplotlib import pyplot

    axes = pyplot.subplots()[1]
    assert plots.TransitionDisplay.from_estimator(crf, ax=axes).ax_ is axes
