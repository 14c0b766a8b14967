"""Text in, fields out."""

import json
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import rulefield as rf
from rulefield import rules as r
from rulefield.data.documents import Document
from rulefield.datasets import make_addresses
from rulefield.encode.alignment import spans_of
from rulefield.encode.spans import SegmentTable
from rulefield.encode.spans import spans as segments
from rulefield.exceptions import InputError, ModelFileError
from rulefield.inference.sequences.reading import find_segments


def addresses(n, seed):
    """Generated addresses as texts with spans of characters."""
    X, y = make_addresses(n, seed=seed)
    texts, spans = [], []
    for tokens, labels in zip(X, y):
        stops = np.cumsum([len(token) + 1 for token in tokens])
        places = [(int(stop) - len(token) - 1, int(stop) - 1) for token, stop in zip(tokens, stops)]
        texts.append(" ".join(tokens))
        spans.append([tuple(span[:3]) for span in spans_of(labels, places)])
    return texts, spans


TEXTS, SPANS = addresses(120, 0)


@pytest.fixture(scope="module")
def parser():
    return rf.TextParser(tokenizer="whitespace").fit(TEXTS, SPANS)


def test_spans_are_pieces_of_the_text_with_probabilities(parser):
    for text in [*TEXTS[:20], "  59  ST JAMES PLACE\tNEW YORK NY 10038 "]:
        parse = parser.parse(text)
        for span in parse.spans:
            assert text[span.start : span.end] == span.text
            assert 0 < span.probability <= 1
            assert span.probability >= parse.probability - 1e-9
        assert parse.status == "optimal"
        assert parse.spans == tuple(sorted(parse.spans, key=lambda s: s.start))


def test_it_learns(parser):
    texts, spans = addresses(60, 1)
    assert parser.score(texts, spans) > 0.9
    assert parser.predict(texts[:3])[0] == [(s.start, s.end, s.label) for s in parser.parse(texts[0]).spans]


def test_fields_list_what_comes_back(parser):
    parse = rf.TextParser().fit(["a b a"], [[(0, 1, "x"), (2, 3, "y"), (4, 5, "x")]]).parse("a b a")
    assert parse.fields == {"x": ["a", "a"], "y": "b"}


def test_alternatives_begin_with_the_answer_and_fall(parser):
    parse = parser.parse(TEXTS[0])
    others = parse.alternatives(4)
    assert [s.text for s in others[0].spans] == [s.text for s in parse.spans]
    chances = [other.probability for other in others]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == pytest.approx(parse.probability)


def test_rules_act_and_are_named(parser):
    label = SPANS[0][0][2]
    rule = (r.segments(label) <= 0).named("none of it")
    parse = parser.parse(TEXTS[0], rules=[rule])
    assert label not in parse.fields
    soft = parser.parse(TEXTS[0], rules=[rule.soft(0.01)])
    assert [b.rule for b in soft.broken] == ["none of it"]


def test_json_says_what_the_parse_says(parser):
    rules = [
        (r.segments("zip") >= 2).named('two "zips"'),
        r.segments("zip") <= 1,
        (r.segments("city") >= 3).soft(0.5),
    ]
    texts = ["", "  ", *TEXTS[:5], 'a "b" \\ \u2028 Ω 😀 \ud800 \x00 10038']
    relaxed = rf.TextParser.of(rf.load(parser.model_.to_bytes()).set_params(on_infeasible="relax"), "whitespace")
    for acting, chances in (([], False), ([], True), (rules, True)):
        found = relaxed.parse_json(texts, rules=acting, probabilities=chances)
        parses = relaxed.parse_all(texts, rules=acting, probabilities=chances)
        assert found == [parse.to_json() for parse in parses]
        assert all(json.loads(line, parse_constant=pytest.fail) for line in found)
        assert [json.loads(line) for line in found] == [parse.to_dict() for parse in parses]
    assert any(None in [b["cost"] for b in json.loads(line)["broken"]] for line in found)


def test_known_spans_are_kept(parser):
    start, end, _ = SPANS[0][0]
    other = next(label for label in parser.labels_ if label != SPANS[0][0][2])
    parse = parser.parse(TEXTS[0], known=[(start, end, other)])
    assert (start, end, other) in [(s.start, s.end, s.label) for s in parse.spans]


def test_texts_without_tokens_and_missing_ones(parser):
    assert [p.spans for p in parser.parse_all(["", None, "  "])] == [(), (), ()]
    with pytest.raises(InputError, match="for one text write"):
        parser.predict("one text")
    with pytest.raises(InputError, match=r"texts\[1\] must be a string; got 3"):
        parser.predict(["a", 3])
    with pytest.raises(InputError, match="for many texts call parse_all"):
        parser.parse(["a"])


def test_one_file(parser, tmp_path):
    path = tmp_path / "addresses.rf"
    parser.save(path)
    again = rf.load(path)
    assert isinstance(again, rf.TextParser)
    assert again.labels_ == parser.labels_
    for text in TEXTS[:5]:
        assert again.parse(text) == parser.parse(text)


def test_a_model_that_was_given_comes_back(tmp_path):
    """A parser that is opened and fitted again learns with the settings it was made with."""
    model = rf.ChainCRF(scheme="BIOES", l2=0.3)
    rf.TextParser(model=model, tokenizer="whitespace").fit(TEXTS[:20], SPANS[:20]).save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert again.model.get_params() == model.get_params()
    assert again.fit(TEXTS[:20], SPANS[:20]).model_.scheme == "BIOES"


def test_texts_count_by_their_weight_in_the_score(parser):
    texts, spans = TEXTS[:4], [*SPANS[:3], [(0, 1, "street")]]
    twice = parser.score([*texts, texts[3]], [*spans, spans[3]])
    assert parser.score(texts, spans, sample_weight=[1, 1, 1, 2]) == pytest.approx(twice)
    assert parser.score(texts, spans, sample_weight=[1, 1, 1, 0]) == pytest.approx(parser.score(texts[:3], spans[:3]))
    with pytest.raises(InputError, match="one weight for each of 4"):
        parser.score(texts, spans, sample_weight=[1, 1])


def test_a_tokenizer_of_ones_own_is_named_and_given_back(tmp_path):
    parser = rf.TextParser(tokenizer=str.split).fit(TEXTS[:20], SPANS[:20])
    parser.save(tmp_path / "m.rf")
    with pytest.raises(ModelFileError, match="your own tokenizer .* give it again"):
        rf.load(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf", tokenizer=str.split)
    assert again.parse(TEXTS[0]) == parser.parse(TEXTS[0])


def test_cuts_are_told_and_treated_as_asked():
    texts, spans = ["take 5mg now"] * 3, [[(5, 6, "dose"), (6, 8, "unit")]] * 3
    with pytest.warns(UserWarning, match=r"6 span edges lie inside a token \(text 0: 'dose' \(5 to 6\) cuts"):
        parser = rf.TextParser(tokenizer="whitespace").fit(texts, spans)
    assert parser.cuts_[0][0] == 0
    with pytest.raises(InputError, match="text 0: 'dose'"):
        rf.TextParser(tokenizer="whitespace", on_cut="raise").fit(texts, spans)
    with pytest.raises(InputError, match="on_cut must be one of"):
        rf.TextParser(on_cut="drop").fit(texts, spans)


def test_documents_and_bad_spans():
    documents = [Document("Ada 1843", ((0, 3, "name"),))] * 3
    assert rf.TextParser().fit(documents).parse("Ada 1843").fields == {"name": "Ada"}
    with pytest.raises(InputError, match="text 0: span 'x' from 0 to 9"):
        rf.TextParser().fit(["Ada"], [[(0, 9, "x")]])
    with pytest.raises(InputError, match="1 texts but 2 lists"):
        rf.TextParser().fit(["Ada"], [[], []])
    with pytest.raises(InputError, match="fit needs spans"):
        rf.TextParser().fit(["Ada"])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_in_columns_out(parser, library):
    module = import_module(library)
    texts = [TEXTS[0], None, TEXTS[1]]
    column = module.chunked_array([texts]) if library == "pyarrow" else module.Series(texts)
    frame = parser.parse_column(column)
    assert type(frame).__module__.split(".")[0] == library
    names = list(getattr(frame, "column_names", None) or frame.columns)
    assert names == [*parser.labels_, "probability", "broken"]
    plain = parser.parse_column(texts)
    assert list(plain) == names
    label = SPANS[0][0][2]
    assert plain[label][0] == parser.parse(TEXTS[0]).fields[label]


def test_fields_stand_beside_their_texts_in_pandas(parser):
    import pandas as pd

    frame = pd.DataFrame({"address": TEXTS[:12], "n": range(12)}, index=[f"row {i}" for i in range(12)])
    some = frame[frame.n % 3 == 1]
    joined = some.join(parser.parse_column(some["address"]))
    assert list(joined.index) == list(some.index)
    label = next(label for label in parser.labels_ if joined[label].notna().any())
    for text, field in zip(joined["address"], joined[label]):
        expected = parser.parse(text).fields.get(label)
        assert field == (" ".join(expected) if isinstance(expected, list) else expected) or pd.isna(field)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_whole_frame_is_refused(parser, library):
    module = import_module(library)
    frame = (module.table if library == "pyarrow" else module.DataFrame)({"address": TEXTS[:2], "n": [1, 2]})
    with pytest.raises(InputError, match="got a whole frame with the columns 'address', 'n': choose one"):
        parser.parse_column(frame)
    with pytest.raises(InputError, match="got a dict of columns"):
        parser.parse_column({"address": TEXTS[:2]})


def test_missing_and_empty_texts_are_rows_without_a_probability(parser):
    import pandas as pd

    for missing in (None, float("nan"), pd.NA, "", "  "):
        column = pd.Series([TEXTS[0], missing, TEXTS[1]], index=[7, 3, 5], dtype="object")
        frame = parser.parse_column(column)
        assert list(frame.index) == [7, 3, 5]
        assert frame["probability"].isna().tolist() == [False, True, False]
        assert frame.loc[3, parser.labels_].isna().all()
    assert parser.parse("").probability is None


def test_other_models_inside():
    ruled = rf.TextParser(model=rf.RuledCRF(rf.ChainCRF(scheme="BIO"), rules="propose", cv=2), tokenizer="whitespace")
    parse = ruled.fit(TEXTS[:40], SPANS[:40]).parse(TEXTS[0])
    assert parse.spans
    assert all(s.probability is not None for s in parse.spans)
    plain = rf.TextParser(model=rf.RuledCRF(rules="propose", cv=2), tokenizer="whitespace").fit(
        TEXTS[:40], SPANS[:40]
    )
    assert plain.parse(TEXTS[0]).spans
    segments = rf.TextParser(model=rf.SegmentCRF(scheme="BIO"), tokenizer="whitespace").fit(TEXTS[:40], SPANS[:40])
    assert segments.parse(TEXTS[0]).spans


def test_scikit_learn(parser):
    assert clone(parser).tokenizer == "whitespace"
    assert cross_val_score(rf.TextParser(tokenizer="whitespace"), TEXTS[:60], SPANS[:60], cv=2).min() > 0.5


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b", "I-a/B-c", "B-a/B-c"]), max_size=7), max_size=5
    )
)
def test_segments_of_many_labelings_are_those_of_each(rows):
    table = SegmentTable(["B-a", "B-a/B-c", "B-b", "I-a", "I-a/B-c", "I-b", "O"], "BIO")
    lengths = np.array([len(labels) for labels in rows], np.int64)
    found_in_all = find_segments(
        table, np.array([table.labels.index(y) for row in rows for y in row], np.int64), lengths
    )
    for i, (labels, end) in enumerate(zip(rows, np.cumsum(lengths).tolist())):
        found = found_in_all.of(i, end - len(labels), table)
        alone = [s for s in segments(labels, "BIO", level=None) if s.type != "O"] if labels else []
        assert [span for span, _ in found] == alone
        assert [level for _, level in found] == [span.type.count("/") for span in alone]


# --- columns -------------------------------------------------------------------------------------


def test_texts_of_one_call_are_read_as_each_alone(parser):
    texts = [*TEXTS[:9], "", "   ", "Zoë Ö. 1900", "unknown words 12345", *TEXTS[:3]]
    together = parser.parse_all(texts)
    for text, parse in zip(texts, together):
        alone = parser.parse(text)
        assert _same(parse, alone)
        assert parse.text == text
        assert parse.probability == pytest.approx(alone.probability)
    assert [[s[:3] for s in parse.spans] for parse in together] == list(parser.predict(texts))


def _same(a, b):
    chances = zip((s.probability for s in a.spans), (s.probability for s in b.spans))
    return [s[:4] for s in a.spans] == [s[:4] for s in b.spans] and all(x == pytest.approx(y) for x, y in chances)


def test_spans_of_texts_are_those_that_the_model_finds_in_their_tokens(parser):
    texts = [*TEXTS, "Zoë Ö. 1900", "a b c d e f"]
    labels = parser.model_.predict(parser.tokens(texts))
    assert [len(row) for row in parser.predict(texts)] == [
        len([s for s in segments(list(row), "BIO") if s.type != "O"]) for row in labels
    ]


def test_many_portions_are_one_answer(parser, monkeypatch):
    monkeypatch.setattr("rulefield.estimators.text.reading.PORTION", 2)
    texts = [*TEXTS[:5], "", *TEXTS[:2]]
    assert list(parser.predict(texts)) == [row for text in texts for row in parser.predict([text])]


def test_alternatives_keep_what_is_known(parser):
    text, spans = TEXTS[0], SPANS[0]
    parse = parser.parse(text, known=[spans[0]])
    assert all(tuple(spans[0]) in [s[:3] for s in other.spans] for other in parse.alternatives(3))


RULES = [r.segments("zip") <= 1, (r.segments("city") <= 1).soft(1.5), r.before("state", "zip").soft(0.7)]


def test_probabilities_under_rules_are_those_of_the_model_and_of_each_span(parser):
    texts = [*TEXTS[:6], "", "12 Oak St Oak City NY 12345 NY 12345"]
    parses = parser.parse_all(texts, rules=RULES)
    tokens = [row for row in parser.tokens(texts) if row]
    labelings = parser.model_.decode(tokens, rules=RULES, probability=True)
    found = [parse for parse in parses if parse.text]
    for parse, one in zip(found, labelings, strict=True):
        error = parse.probability_error + one.probability_error
        assert abs(parse.probability - one.probability) <= error + 1e-9
    assert [p.broken for p in found] == [one.broken for one in labelings]
    assert parses[6].probability is None
    for parse in found:
        assert all(span.probability >= parse.probability - 2e-3 for span in parse.spans)


def test_rules_of_one_call_are_not_those_of_the_next(parser):
    text = "12 Oak St Oak City NY 12345 NY 12345"
    few, many = (r.segments("zip") <= 1).soft(50.0), (r.segments("zip") >= 2).soft(50.0)
    for rule in (few, many, few):
        alone = rf.TextParser.of(parser.model_, "whitespace").parse(text, rules=[rule])
        assert parser.parse(text, rules=[rule]) == alone


def test_every_probability_says_how_far_it_may_be_off():
    texts, spans = ["Ada 1843", "Bob 1936", "Eve 2001"], [[(0, 3, "name"), (4, 8, "year")]] * 3
    parser = rf.TextParser().fit(texts, spans)
    assert parser.parse("Zoe 1999").probability_error == 0.0
    assert parser.parse("").probability_error is None
    rule = (r.segments("name") <= 1).soft(1.0)
    exact = parser.model_.decode([["Zoe", "1999"]], rules=[rule], probability=True, tolerance=0)[0]
    parsed = parser.parse("Zoe 1999", rules=[rule])
    assert 0.0 <= parsed.probability_error <= 1e-2
    assert abs(parsed.probability - exact.probability) <= parsed.probability_error + 1e-9
