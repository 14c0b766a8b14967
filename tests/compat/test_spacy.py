"""The spaCy component: entities, probabilities and broken rules are those of the model; pipelines are saved and opened."""

import pytest
import spacy
from spacy.tokens import DocBin

import rulefield as rf
import rulefield.compat.spacy
from rulefield import rules as r
from rulefield.compat.spacy import RulefieldComponent
from rulefield.exceptions import InputError, RulefieldError

TEXTS = ["Ada Lovelace, 1843", "Alan Turing, 1936", "Emmy Noether, 1918", "Grace Hopper, 1952"]
SPANS = [[(0, len(text) - 6, "name"), (len(text) - 4, len(text), "year")] for text in TEXTS]
NEW = ["Kurt Goedel, 1931", "", "Alan Ada, 1843, 1936"]


@pytest.fixture(scope="module")
def parser():
    rules = [(r.segments("year") <= 1).soft(0.01)]
    return rf.TextParser(model=rf.ChainCRF(scheme="BIO", l2=0.1, rules=rules)).fit(TEXTS, SPANS)


@pytest.fixture
def pipeline(parser, tmp_path):
    parser.save(tmp_path / "m.rf")
    nlp = spacy.blank("en")
    nlp.add_pipe("rulefield", config={"model": str(tmp_path / "m.rf")})
    return nlp


def test_documents_say_what_the_parser_says(pipeline, parser):
    for doc, text in zip(pipeline.pipe(NEW), NEW):
        parse = parser.parse(text)
        assert [(e.start_char, e.end_char, e.label_) for e in doc.ents] == [
            (s.start, s.end, s.label) for s in parse.spans
        ]
        assert [e._.probability for e in doc.ents] == pytest.approx([s.probability for s in parse.spans])
        assert doc._.probability == pytest.approx(parse.probability)
        assert doc._.status == parse.status
        assert [(b["rule"], b["amount"], b["cost"]) for b in doc._.broken] == [
            (b.rule, b.amount, b.cost) for b in parse.broken
        ]
    assert pipeline(NEW[2])._.broken


def test_pipelines_are_saved_with_the_model_inside(pipeline, parser, tmp_path):
    pipeline(NEW[0])
    pipeline.to_disk(tmp_path / "pipeline")
    (tmp_path / "m.rf").unlink()
    again = spacy.load(tmp_path / "pipeline")
    assert [e.text for e in again(NEW[0]).ents] == [s.text for s in parser.parse(NEW[0]).spans]
    copy = spacy.blank("en")
    copy.add_pipe("rulefield")
    copy.from_bytes(pipeline.to_bytes())
    assert [e.text for e in copy(NEW[0]).ents] == [s.text for s in parser.parse(NEW[0]).spans]
    bin = DocBin(store_user_data=True, docs=[pipeline(NEW[2])])
    (doc,) = DocBin().from_bytes(bin.to_bytes()).get_docs(pipeline.vocab)
    assert doc.user_data


def test_chains_label_the_tokens_of_spacy(tmp_path):
    nlp = spacy.blank("en")
    tokens = [[token.text for token in nlp(text)] for text in TEXTS]
    chain = rf.ChainCRF(scheme="BIO", l2=0.1).fit(tokens, [["B-name", "I-name", "O", "B-year"]] * 4)
    chain.save(tmp_path / "chain.rf")
    nlp.add_pipe("rulefield", config={"model": str(tmp_path / "chain.rf")})
    doc = nlp("Kurt  Goedel, 1931")
    assert [(e.text, e.label_) for e in doc.ents] == [("Kurt  Goedel", "name"), ("1931", "year")]
    assert nlp.from_bytes(nlp.to_bytes())("Kurt Goedel, 1931").ents[0]._.probability > 0.5


def test_entities_that_are_there_are_known(parser):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "year", "pattern": "Ada"}])
    doc = nlp("Alan Ada, 1843")
    component = RulefieldComponent(parser, keep_ents=True)
    assert ("Ada", "year") in [(e.text, e.label_) for e in component(doc).ents]
    assert ("Ada", "year") not in [(e.text, e.label_) for e in RulefieldComponent(parser)(nlp("Alan Ada, 1843")).ents]


def test_the_more_probable_of_spans_in_one_token_stays_and_the_other_is_reported(parser):
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: spacy.tokens.Doc(
        nlp.vocab, words=text.split("|"), spaces=[False] * len(text.split("|"))
    )
    text = "Kurt Goedel, 1931"
    with pytest.warns(UserWarning, match="meet in one of spaCy's tokens; the more probable one is kept"):
        doc = RulefieldComponent(parser)(nlp(text))
    spans = sorted(parser.parse(text).spans, key=lambda span: -span.probability)
    assert [(e.text, e.label_) for e in doc.ents] == [(text, spans[0].label)]
    assert [d["text"] for d in doc._.dropped] == [span.text for span in spans[1:]]
    assert RulefieldComponent(parser)(spacy.blank("en")(text))._.dropped == []


def test_a_missing_model_fails_when_it_is_added():
    with pytest.raises(RulefieldError, match="no-such.rf"):
        spacy.blank("en").add_pipe("rulefield", config={"model": "no-such.rf"})


def test_a_saved_pipeline_needs_no_model_file(parser, tmp_path):
    parser.save(tmp_path / "m.rf")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("rulefield", config={"model": str(tmp_path / "m.rf")})
    expected = [e.text for e in nlp("Kurt Goedel, 1931").ents]
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "m.rf").unlink()
    assert [e.text for e in spacy.load(tmp_path / "pipeline")("Kurt Goedel, 1931").ents] == expected


def test_a_component_without_a_model_says_so():
    nlp = spacy.blank("en")
    nlp.add_pipe("rulefield")
    with pytest.raises(InputError, match="has no model; add it with config"):
        nlp("a")
