"""The workbench: the API says what the library says, refuses what it must, and the page holds no inline script."""

import json
import time
from pathlib import Path

import html5lib
import pytest
from starlette.testclient import TestClient

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.options import ReadOptions
from rulefield.cli.pages import app, serve, workbench
from rulefield.cli.pages.app import LARGEST_BODY, make_app
from rulefield.cli.pages.calls import POSTS
from rulefield.cli.pages.items import items_of
from rulefield.cli.pages.serve import open_workbench
from rulefield.cli.pages.workbench import Workbench
from rulefield.exceptions import InputError
from rulefield.metrics import text_span_f1

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def model():
    X, y = rf.datasets.make_citations(40, seed=0, noise=0.4)
    rules = [(r.segments("title") == 1).named("one title")]
    return rf.ChainCRF(scheme="BIO", rules=rules, max_iter=12).fit(X[:25], y[:25])


@pytest.fixture
def bench(model, tmp_path):
    X, y = rf.datasets.make_citations(40, seed=0, noise=0.4)
    rows = [{"tokens": a, "labels": b} for a, b in zip(X[25:], y[25:])]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parser = rf.TextParser.of(model, "whitespace")
    return Workbench(parser, items_of(parser, str(tmp_path / "d.jsonl")), str(tmp_path / "c.jsonl"))


@pytest.fixture
def client(bench):
    return client_of(bench)


def client_of(bench, **options):
    return TestClient(make_app(bench, **options), base_url="http://127.0.0.1")


def post(client, path, **body):
    answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_parse_is_the_librarys_own(client, bench):
    texts = [item.text for item in bench.items[:4]]
    found = post(client, "/parse", texts=texts, probabilities=True)["parses"]
    own = bench.parser.parse_all(texts)
    assert [p["fields"] for p in found] == [p.fields for p in own]
    assert found[0]["spans"][0]["probability"] == pytest.approx(own[0].spans[0].probability)
    free = post(client, "/parse", text=texts[0], rules=[])["parses"][0]
    assert free["fields"] == bench.parser.parse(texts[0], rules=[]).fields


def test_rules_are_checked_with_the_place_of_the_error(client):
    rows = post(
        client,
        "/rules/check",
        rules=[
            {"rule": "segments('title') <= 1"},
            {"rule": "segments('titel') <= 1"},
            {"rule": "segments('title') <= )"},
            {"rule": "segmants('title') <= 1"},
        ],
    )["rules"]
    assert "error" not in rows[0]
    assert rows[1]["at"] == "segments('titel')".index("titel")
    assert rows[2]["at"] == len("segments('title') <= ")
    assert rows[3]["at"] == 0
    assert "did you mean 'segments'" in rows[3]["error"]


def test_view_shows_the_text_under_rules_and_without(client, bench, model):
    item = bench.items[0]
    view = post(client, "/view", index=0, rules=[{"rule": "segments('author') <= 0", "weight": "hard"}])
    assert "author" not in {kind for *_, kind in view["spans"]}
    assert "author" in {kind for *_, kind in view["plain"]}
    assert len(view["chances"]) == len(item.tokens)
    assert view["alternatives"]
    assert "author" not in {kind for a in view["alternatives"] for *_, kind in a["spans"]}


def test_rules_that_contradict_each_other_are_named(client):
    rules = [
        {"rule": "segments('title') >= 2", "weight": "hard", "name": "two"},
        {"rule": "segments('title') <= 1", "weight": "hard", "name": "one"},
        {"rule": "present('author')", "weight": "hard"},
    ]
    assert sorted(post(client, "/view", index=0, rules=rules)["conflict"]) == ["one", "two"]


def test_effect_counts_right_and_wrong(client, bench, model):
    rule = {"rule": "segments('date') <= 0", "weight": "hard"}
    found = post(client, "/effect", rules=[rule], before=[])
    X, gold = [i.tokens for i in bench.items], [i.gold for i in bench.items]
    old, new = model.predict(X, rules=[]), model.predict(X, rules=[(r.segments("date") <= 0)])
    assert found["changed"] == [i for i in range(len(X)) if old[i] != new[i]]
    parser = rf.TextParser.of(model, "whitespace")
    texts = [i.text for i in bench.items]
    was, now = parser.predict(texts, rules=[]), parser.predict(texts, rules=[(r.segments("date") <= 0)])
    rows = [tuple(map(set, row)) for row in zip(gold, was, now)]
    assert found["worse"] == sum(len((g & a) - b) for g, a, b in rows) > 0
    assert found["better"] == sum(len((g & b) - a) for g, a, b in rows)
    assert (found["f1_before"], found["f1"]) == (text_span_f1(gold, was), text_span_f1(gold, now))
    assert found["broken"] == [0]
    assert (
        post(client, "/effect", rules=[rule], before=[rule])["changed"] == []
    )  # what was kept belongs to other rules
    assert post(client, "/effect", rules=[rule], before=[]) == found
    _, labels = rf.datasets.make_citations(40, seed=0, noise=0.4)
    other = rf.TextParser.of(rf.ChainCRF(scheme="BIO", max_iter=1).fit(X[:2], labels[25:27]), "whitespace")
    bench.parser = other  # as after training again
    fresh = Workbench(other, bench.items)
    assert post(client, "/effect", rules=[rule], before=[]) == fresh.effect([rule], [])


def test_corrections_are_saved_and_learned_from(client, bench):
    index = post(client, "/next")["index"]
    n = len(bench.items[index].text)
    found = post(client, "/correct", index=index, spans=[[0, n, "note"]])
    assert found["label"] == [[0, len(bench.items[index].text), "note"]]
    saved = Path(bench.corrections).read_text()
    assert json.loads(saved) == {"text": found["text"], "label": found["label"]}
    assert client.get("/corrections").text == saved
    assert post(client, "/next")["index"] != index
    post(client, "/retrain")
    for _ in range(200):
        if (now := client.get("/retrain").json())["state"] != "training":
            break
        time.sleep(0.1)
    assert now["state"] == "done"
    assert now["iteration"] > 0
    assert post(client, "/view", index=index, rules=[])["spans"] == [[0, n, "note"]]
    assert rf.load(client.get("/model").content).parse("a b") is not None


def test_label_studio_finds_its_calls(client):
    assert client.get("/health").json()["status"] == "UP"
    assert post(client, "/setup", project="1", schema="<View/>")["model_version"]
    results = post(client, "/predict", tasks=[{"id": 1, "data": {"text": "A. Turing, On computable numbers, 1936"}}])[
        "results"
    ]
    assert results[0]["result"][0]["type"] == "labels"
    assert 0 <= results[0]["score"] <= 1


def test_texts_of_label_studio_have_the_same_limit(client):
    answer = client.post("/predict", json={"tasks": [{"id": 1, "data": {"text": "a " * 30_000}}]})
    assert answer.status_code == 422
    assert "at most 50,000 characters" in answer.json()["error"]


def test_what_must_be_refused_is_refused_in_a_sentence(client):
    assert client.post("/parse", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert (
        client.post("/parse", content=b"[" * 100_000, headers={"content-type": "application/json"}).status_code == 400
    )
    big = client.post("/parse", content=b"x" * (LARGEST_BODY + 1), headers={"content-type": "application/json"})
    assert big.status_code == 413
    assert client.get("/about", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/../../etc/passwd").status_code == 404
    for path, body in [
        ("/parse", {"texts": 3}),
        ("/parse", {"text": "x" * 60_000}),
        ("/view", {"index": "0"}),
        ("/view", {"index": 10**6}),
        ("/correct", {"index": 0, "spans": [[5, 2, "a"]]}),
        ("/rules/check", {"rules": [{}] * 500}),
        ("/view", {"index": 0, "rules": [{"rule": "nonsense"}]}),
        ("/predict", {"tasks": [{"data": 3}]}),
        ("/correct", {"text": 5, "spans": []}),
    ]:
        answer = client.post(path, json=body)
        assert answer.status_code == 422, (path, answer.text)
        assert answer.json()["error"].endswith((".", "'")), answer.text


def test_half_a_surrogate_pair_is_a_text_as_any_other(client, bench):
    text = "a \ud800 b"
    post(client, "/parse", text=text)
    assert post(client, "/view", text=text)["text"] == text
    post(client, "/predict", tasks=[{"data": {"text": text}}])
    assert post(client, "/correct", text=text, spans=[[2, 3, "title"]])["text"] == text
    for saved in (Path(bench.corrections).read_text(), client.get("/corrections").text):
        assert json.loads(saved)["text"] == text


def test_an_answer_that_takes_too_long_is_refused_in_time(bench, monkeypatch):
    monkeypatch.setattr(app, "SECONDS", 0.05)
    monkeypatch.setattr(bench, "check", lambda rules: time.sleep(2))
    begun = time.perf_counter()
    answer = client_of(bench).post("/rules/check", json={"rules": []})
    assert answer.status_code == 503
    assert "no answer within" in answer.json()["error"]
    assert time.perf_counter() - begun < 1.5


def test_a_token_guards_everything_but_the_empty_page(bench):
    client = client_of(bench, token="secret", hosts=["*"])
    assert client.get("/").status_code == 200
    for path in POSTS:
        assert client.post(path, json={}).status_code == 401
    assert client.get("/model").status_code == 401
    assert client.get("/about", headers={"Authorization": "Bearer secret"}).status_code == 200
    with pytest.raises(InputError, match="--token"):
        serve.serve("m.rf", ReadOptions(), host="0.0.0.0", corrections="c.jsonl")


def test_the_page_is_valid_and_runs_only_its_own_script(client):
    answer = client.get("/")
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(answer.text)
    scripts = [e for e in tree.iter() if e.tag == "script"]
    assert [(s.get("src"), s.text) for s in scripts] == [("workbench.js", None)]
    assert "unsafe-inline" not in answer.headers["content-security-policy"].split("style-src")[0]
    script = client.get("/workbench.js").text
    assert "innerHTML" not in script
    assert "http" not in script
    assert client.get("/workbench.css").text.startswith(".rf")


def test_every_call_is_in_the_openapi_document(client):
    paths = client.get("/openapi.json").json()["paths"]
    served = {(r.path, m.lower()) for r in client.app.routes for m in r.methods - {"HEAD"}}
    assert {(path, method) for path, row in paths.items() for method in row} == served
    bodies = [paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"] for path in POSTS]
    assert (
        sum("properties" in body for body in bodies) >= len(bodies) - 1
    )  # Label Studio sends what it likes to /setup


def test_texts_of_a_parser_are_the_data(tmp_path):
    texts = [f"{EVIL} Ada, 1843", "Alan Turing, 1936"]
    rf.TextParser().fit(texts, [[(26, 29, "name")], [(0, 11, "name")]]).save(tmp_path / "p.rf")
    (tmp_path / "t.txt").write_text("\n".join(texts))
    bench = serve.open_workbench(str(tmp_path / "p.rf"), str(tmp_path / "t.txt"), None)
    assert [item.text for item in bench.items] == texts
    assert post(client_of(bench), "/view", index=0)["text"] == texts[0]


def test_wrong_types_and_odd_media_types(client):
    for index in ("0", [0], {"a": 0}, 1.5, True):
        for path in ("/correct", "/view"):
            answer = client.post(path, json={"index": index, "text": "a b", "spans": []})
            assert answer.status_code == 422, (path, index)
    odd = client.post("/parse", content=b'{"text": "a"}', headers={"content-type": "Application/JSON; charset=utf-8"})
    assert odd.status_code == 200


def test_no_other_site_may_frame_the_page(client):
    policy = client.get("/").headers["content-security-policy"]
    for directive in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"):
        assert directive in policy


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("by zero")])
def test_training_that_fails_by_surprise_can_begin_again(client, bench, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(workbench, "refitted", fail)
    for _ in range(2):
        assert post(client, "/retrain")["state"] in ("training", "failed")
        for _ in range(100):
            if (now := client.get("/retrain").json())["state"] != "training":
                break
            time.sleep(0.05)
        assert (now["state"], now["message"]) == ("failed", str(error) or "MemoryError")


def test_corrections_of_one_run_have_a_limit(client, bench, monkeypatch):
    monkeypatch.setattr(workbench, "MOST_CORRECTED_BYTES", 4_100)
    n = len(bench.items)
    assert post(client, "/correct", text="a b c d", spans=[[0, 1, "note"]])["index"] == n
    assert post(client, "/correct", text="a b c d", spans=[[0, 1, "note"]])["index"] == n + 1
    for body in ({"text": "a b c", "spans": []}, {"index": n, "spans": []}):
        refused = client.post("/correct", json=body)
        assert refused.status_code == 422
        assert "start the server again" in refused.json()["error"]
    assert len(bench.items) == n + 2


def test_long_words_and_long_labels_count_as_what_they_take(client, bench, monkeypatch):
    monkeypatch.setattr(workbench, "MOST_CORRECTED_BYTES", 100_000)
    for text, label in (("a" * 40_000, "note"), ("a b", "n" * 40_000)):
        refused = client.post("/correct", json={"text": text, "spans": [[0, 1, label]]})
        assert refused.status_code == 422
        assert "start the server again" in refused.json()["error"]
    post(client, "/correct", text="a b", spans=[[0, 1, "note"]])


@pytest.mark.parametrize("mark", [[0.9, 1, "a"], ["0", 1, "a"], [True, 1, "a"], [0, 1, None], [0, 1, 7], [0, 1]])
def test_a_span_is_two_whole_numbers_and_a_name(client, bench, mark):
    answer = client.post("/correct", json={"text": "a b", "spans": [mark]})
    assert answer.status_code == 422
    assert "spans must be a list of" in answer.json()["error"]


@pytest.mark.parametrize("label", ["", " ", "O", "a\ud800"])
def test_a_label_that_no_model_can_be_trained_with_is_refused(client, bench, label):
    body = json.dumps({"text": "a b", "spans": [[0, 1, label]]})
    answer = client.post("/correct", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "a label must be a name" in answer.json()["error"]


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e400"])
def test_numbers_that_json_does_not_know_are_refused(client, number):
    body = f'{{"rules": [{{"rule": "x", "weight": {number}}}]}}'.encode()
    answer = client.post("/rules/keep", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert number in answer.json()["error"]
    assert client.get("/about").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/parse", {"text": "a", "rulez": []}, "does not know 'rulez'"),
        ("/parse", {"text": "a", "texts": ["b"]}, "either"),
        ("/parse", {"text": "a", "probabilities": "no"}, "true or false"),
        ("/parse", {"text": "a", "rules": [{"rule": "count('title') <= 1", "on": "no"}]}, "true or false"),
        ("/retrain", {"epochs": 3}, "it takes nothing"),
        ("/rules/keep", {"rules": [1]}, "an object"),
    ],
)
def test_what_a_question_does_not_know_is_refused(client, path, body, sentence):
    answer = client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["error"]


def test_label_studio_may_send_more(client):
    post(client, "/predict", tasks=[{"data": {"text": "a b"}}], project="1", params={})
    post(client, "/setup", project="1")


# --- what the page keeps ----------------------------------------------------------------------------


TEXTS, SPANS = rf.datasets.make_addresses(60, seed=0, noise=0, messy=True, plain=True)


@pytest.fixture
def coarse(tmp_path):
    """A workbench whose parser keeps "Rd,Apt" in one token."""
    gold = [{"text": text, "label": spans} for text, spans in zip(TEXTS, SPANS)]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    with pytest.warns(UserWarning, match="whole tokens"):
        parser = rf.TextParser(model=rf.ChainCRF(scheme="BIO", max_iter=20), tokenizer="whitespace").fit(TEXTS, SPANS)
    parser.save(tmp_path / "m.rf")
    return open_workbench(str(tmp_path / "m.rf"), str(tmp_path / "gold.jsonl"), str(tmp_path / "c.jsonl"))


def test_gold_keeps_its_characters(coarse):
    client = client_of(coarse)
    for i, spans in enumerate(SPANS):
        view = post(client, "/view", index=i, rules=[])
        assert view["gold"] == [list(span) for span in spans]
        edges = {edge for place in view["tokens"] for edge in place}
        assert all(edge in edges for a, b, _ in spans for edge in (a, b)), "every gold field is made of shown tokens"
        assert len(view["chances"]) == len(view["tokens"])
        assert post(client, "/correct", index=i, spans=view["gold"])["label"] == view["gold"]


def test_the_score_is_that_of_the_parser(coarse):
    found = post(client_of(coarse), "/effect", rules=[], before=[])
    assert found["f1"] == coarse.parser.score(TEXTS, SPANS)


def test_one_probability_per_labeling(coarse):
    for rules in ([], [{"rule": "segments('city') <= 1", "weight": 2}]):
        view = post(client_of(coarse), "/view", index=3, rules=rules)
        assert view["alternatives"][0]["spans"] == view["spans"]
        same = pytest.approx(view["probability"], rel=1e-12)  # the k best are summed in another order
        assert view["alternatives"][0]["probability"] == same


def test_rules_survive_a_reload_and_are_saved_into_the_model(coarse):
    client = client_of(coarse)
    rules = [{"rule": "segments('city') <= 1", "weight": 2, "on": True}, {"rule": "segmen", "weight": 1, "on": False}]
    assert post(client, "/rules/keep", rules=rules) == {"kept": 2}
    assert client.get("/about").json()["rules"] == rules
    assert post(client, "/rules/save", rules=rules[:1]) == {"rules": 1, "path": "m.rf"}
    saved = rf.load(coarse.path)
    assert [rule.text for rule in saved.model_.rules] == ["segments('city') <= 1"]
    assert saved.parse(TEXTS[0]).fields == coarse.parser.parse(TEXTS[0]).fields
    own = client.get("/about").json()["own"]
    assert [entry["rule"] for entry in own] == ["segments('city') <= 1"]


def test_texts_are_found(coarse):
    client = client_of(coarse)
    post(client, "/correct", index=2, spans=[])
    assert post(client, "/find", kind="corrected")["found"] == [2]
    assert post(client, "/find", kind="open")["found"] == []
    words = TEXTS[5][4:12]
    assert post(client, "/find", words=words)["found"] == [
        i for i, text in enumerate(TEXTS) if words.lower() in text.lower()
    ]
    answers = coarse.parser.predict(TEXTS, rules=[])
    wrong = [i for i in range(60) if set(map(tuple, answers[i])) != set(map(tuple, coarse.items[i].gold))]
    assert post(client, "/find", kind="wrong")["found"] == wrong
    assert client.post("/find", json={"kind": "odd"}).status_code == 422


def test_labeling_begins_from_nothing(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(" ".join(text.split()) + "\n" for text in TEXTS))
    names = ["number", "street", "city", "state", "zip", "unit"]
    made = str(tmp_path / "new.rf")
    bench = open_workbench(made, str(tmp_path / "texts.txt"), None, None, names)
    client = client_of(bench)
    assert client.get("/about").json()["types"] == sorted(names)
    assert client.get("/about").json()["model"] is None
    assert post(client, "/view", index=0, rules=[])["spans"] == []
    assert post(client, "/effect", rules=[], before=[])["changed"] == []
    assert "no model yet" in client.post("/parse", json={"text": "a"}).json()["error"]
    assert "text" in post(client, "/rules/check", rules=[{"rule": "segments('city') <= 1"}])["rules"][0]
    oracle = rf.TextParser().fit(TEXTS, SPANS)
    for _ in range(20):
        index = post(client, "/next")["index"]
        text = bench.items[index].text
        found = [list(span) for span in oracle.predict([text])[0]]
        post(client, "/correct", index=index, spans=found)
    for _ in range(300):
        if client.get("/retrain").json()["state"] != "training":
            break
        time.sleep(0.1)
    assert client.get("/retrain").json()["state"] == "done", client.get("/retrain").json()
    assert rf.load(made).parse(TEXTS[0]).fields
    assert post(client, "/view", index=30, rules=[])["spans"]


def test_a_text_without_words_has_no_probability(coarse):
    client = client_of(coarse)
    assert post(client, "/view", text=" ", rules=[])["probability"] is None
    assert client.post("/correct", json={"text": " ", "spans": []}).json()["error"] == "there is no text to label."
