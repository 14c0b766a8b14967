"""What to label next is what the model is least sure of, unlike what was chosen before."""

import json

import numpy as np
import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.options import ReadOptions
from rulefield.cli.pages.next import choose_next
from rulefield.exceptions import InputError
from rulefield.report.suggest import spread


@pytest.fixture(scope="module")
def crf():
    X, y = rf.datasets.make_citations(25, seed=0, noise=0.5)
    return rf.ChainCRF(scheme="BIO", max_iter=10).fit(X, y)


@pytest.fixture(scope="module")
def pool():
    return rf.datasets.make_citations(40, seed=1, noise=0.5)[0]


def test_without_diversity_the_least_probable_by_length_come_first(crf, pool):
    chosen = rf.suggest(crf, pool, n=10, diversity=0.0)
    p = np.array([x.probability for x in crf.decode(pool, probability=True)])
    doubt = -np.log(p) / np.sqrt([len(x) for x in pool])
    assert [s.index for s in chosen] == np.argsort(-doubt)[:10].tolist()
    assert np.allclose([s.doubt for s in chosen], np.sort(-doubt)[:10] * -1)


def test_a_copy_is_not_chosen_twice(crf, pool):
    most = rf.suggest(crf, pool, n=1)[0].index
    chosen = rf.suggest(crf, [pool[most], pool[most], *pool], n=3, diversity=1.0)
    assert sum(s.index in (0, 1, most + 2) for s in chosen) == 1


def test_spread_takes_all_when_asked_for_more(pool):
    assert sorted(spread(pool[:4], np.arange(4.0), 9, 0.5)) == [0, 1, 2, 3]


def test_broken_rules_are_doubtful(crf, pool):
    rule = (r.count("author") <= 3).soft(0.2)
    plain, ruled = (rf.suggest(crf, pool, n=40, diversity=0.0, rules=rules) for rules in ([], [rule]))
    assert any(s.labeling.broken for s in ruled)
    by_place = {s.index: s.doubt for s in plain}
    assert all(s.doubt > by_place[s.index] for s in ruled if s.labeling.broken)


def test_empty_sequences_are_never_chosen(crf):
    assert rf.suggest(crf, [[], []]) == []
    with pytest.raises(InputError, match="at least 1"):
        rf.suggest(crf, [["a"]], n=0)


def test_the_command_writes_labels_and_probabilities(crf, pool, tmp_path):
    crf.save(tmp_path / "m.rf")
    (tmp_path / "pool.jsonl").write_text(
        "".join(json.dumps({"tokens": x, "id": i}) + "\n" for i, x in enumerate(pool))
    )
    out = tmp_path / "out.jsonl"
    choose_next(str(tmp_path / "m.rf"), str(tmp_path / "pool.jsonl"), ReadOptions(), str(out), 3, jobs=1, quiet=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [s.index for s in rf.suggest(crf, pool, n=3)]
    assert all(len(row["labels"]) == len(row["tokens"]) == len(row["probabilities"]) for row in rows)


def test_the_command_writes_what_label_studio_reads(tmp_path):
    texts = ["Ada Lovelace, 1843", "Alan Turing, 1936", "Emmy Noether, 1918"]
    parser = rf.TextParser().fit(texts, [[(0, 12, "name")], [(0, 11, "name")], [(0, 12, "name")]])
    parser.save(tmp_path / "p.rf")
    (tmp_path / "pool.txt").write_text("Grace Hopper, 1952\nKurt, 1931\n\n")
    out = tmp_path / "tasks.json"
    files = str(tmp_path / "p.rf"), str(tmp_path / "pool.txt")
    choose_next(*files, ReadOptions(), str(out), 2, to="label-studio", jobs=1, quiet=True)
    tasks = json.loads(out.read_text())
    assert {task["data"]["text"] for task in tasks} == {"Grace Hopper, 1952", "Kurt, 1931"}
