"""Lines of handwritten tables ([Meunier17]'s own application): which are first, inside, last or single in their cell.

111 pages of 99 books, 29,752 lines, 3,029 ruled separators; five folds by book. Rows of the table:

``linear``      DocumentTagger with lines alone: one type of thing, separators unread.
``typed``       lines and separators: these decorate the edges between lines and cut the page into regions.
``rules``       + down a column B I* E or S, as soft or hard rules along ``below`` and ``next in region``. Which of these, is
                chosen for each fold by the accuracy on the other four.
``predictors``  + gradient boosting inside, cross-fitted by book, under the same rules.
``boosting_alone``, ``logistic_alone``  the same features of lines without structure.
``header``      header labels (CH, D, O) and rows in one ladder, beside header labels alone.

``cells_f1``: cells recovered exactly, all their lines and no other. ``gain_low``: lower end of the 95 % interval of the
difference to the row before, books drawn with replacement.

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/documents.py`` (``--folds 0 1`` for some of the
folds, ``--rows linear typed`` for some of the rows, ``--pages 30`` for a first look).
"""

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rulefield as rf
from rulefield import rules as r
from rulefield.data.source import Source
from rulefield.encode.documents.boxes_json import read
from rulefield.rules.nodes import violation_on_graph

ROWS = ("linear", "typed", "rules", "predictors", "alone", "header")
GOES_ON = r.followed_by(["B", "I"], ["I", "E"], level="token")
BEGINS = r.followed_by(["E", "S", "O"], ["B", "S", "O"], level="token")


def order(relation, weight=None):
    """The order of a column, hard or at a price."""
    made = [r.along(relation, rule) for rule in (GOES_ON, BEGINS)]
    return made if weight is None else [rule.soft(weight) for rule in made]


HARD = order("below")
CANDIDATES = {
    "hard": HARD,
    **{f"below {w:g}": order("below", w) for w in (1.0, 2.0)},
    **{f"region {w:g}": order("next in region", w) for w in (0.3, 0.6)},
    **{
        f"below {a:g}, region {b:g}": order("below", a) + order("next in region", b)
        for a, b in ((1, 0.3), (1, 0.6), (2, 0.3))
    },
}


def boosting():
    return HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, random_state=0)


def load(field):
    source = Source(str(Path(os.environ["RULEFIELD_DATA"]) / "abp" / "pages_111.jsonl.gz"), "utf-8", {})
    return read(source, field)


def gold_cells():
    """Cell of each line of each page, or None: for evaluation only."""
    source = Source(str(Path(os.environ["RULEFIELD_DATA"]) / "abp" / "pages_111.jsonl.gz"), "utf-8", {})
    return [page.labels for page in read(source, "cell")]


def fold_of_books(pages):
    """Fold of each page; pages of one book are in one fold."""
    books = [page.name.rsplit("_", 1)[0] for page in pages]
    names = sorted(set(books))
    place = {names[k]: i % 5 for i, k in enumerate(np.random.default_rng(0).permutation(len(names)))}
    return np.array(books), np.array([place[book] for book in books])


def cells(labels, pairs):
    """Sets of lines that labels make cells: down a region, B opens one, I and E go on, S stands alone."""
    after = dict(pairs.tolist())
    heads = sorted(set(range(len(labels))) - set(after.values()))
    found = []
    for line in heads:
        members = []
        while line is not None:
            label = labels[line]
            if label in ("I", "E") and members:
                members.append(line)
            else:
                found.append(members)
                members = [line] if label != "O" else []
            if label in ("E", "S"):
                found.append(members)
                members = []
            line = after.get(line)
        found.append(members)
    return {frozenset(one) for one in found if one}


class Scores:
    """Predictions of one row of the table, page by page."""

    def __init__(self):
        self.labels, self.fit, self.decode = {}, [], []
        self.certified, self.n_decoded = 0, 0

    def add(self, numbers, found, fit=0.0, seconds=0.0):
        self.fit.append(fit)
        self.decode.append(1000 * seconds / len(numbers))
        for i, one in zip(numbers, found):
            status = getattr(one, "status", None)
            self.labels[i] = list(getattr(one, "labels", one))
            self.certified += status == "optimal"
            self.n_decoded += status is not None


def right(scores, gold):
    return {i: np.array([a == b for a, b in zip(row, gold[i])]) for i, row in scores.labels.items()}


def summary(scores, gold, books, truth, pairs, before=None):
    hits = right(scores, gold)
    made = {"accuracy": float(np.concatenate(list(hits.values())).mean())}
    if before is not None:
        made["gain_low"] = gain_low(hits, right(before, gold), books)
    if truth is not None:
        exact = found = wanted = 0
        for i, row in scores.labels.items():
            groups = defaultdict(set)
            for line, cell in enumerate(truth[i]):
                if cell is not None:
                    groups[tuple(cell)].add(line)
            true, guess = {frozenset(g) for g in groups.values()}, cells(row, pairs[i])
            exact, found, wanted = exact + len(true & guess), found + len(guess), wanted + len(true)
        made["cells_f1"] = 2 * exact / (found + wanted)
    if any(scores.fit):
        made["fit_cpu_s"] = max(scores.fit)
    if scores.n_decoded:
        made["decode_ms_a_page"] = float(np.mean(scores.decode))
        made["certified"] = scores.certified / scores.n_decoded
    return {key: round(value, 4) for key, value in made.items()}


def gain_low(hits, before, books, draws=2000):
    """Lower end of the 95 % interval of the difference of accuracies, books drawn with replacement."""
    by_book = defaultdict(lambda: np.zeros(2))
    for i, row in hits.items():
        if i in before:
            by_book[books[i]] += [row.sum() - before[i].sum(), len(row)]
    table = np.array(list(by_book.values()))
    rng = np.random.default_rng(0)
    drawn = table[rng.integers(len(table), size=(draws, len(table)))].sum(axis=1)
    return float(np.quantile(drawn[:, 0] / drawn[:, 1], 0.025))


def timed(work):
    begin = process_time()
    made = work()
    return made, process_time() - begin


def learn_fold(rows, pages, gold, books, train, test, table, models):
    """Fit the rows of one fold and keep their predictions."""
    X, y = [pages[i] for i in train], [gold[i] for i in train]
    new = [pages[i] for i in test]
    taggers = {
        "linear": lambda: rf.DocumentTagger(separators=False),
        "typed": lambda: rf.DocumentTagger(),
        "predictors": lambda: rf.DocumentTagger(model=rf.GraphCRF(l2=2.0, predictors={"line": [boosting()]})),
    }
    for name, make in taggers.items():
        if name in rows:
            model, fit = timed(lambda make=make: make().fit(X, y, groups=books[train]))
            found, seconds = timed(lambda model=model: model.decode(new))
            table[name].add(test, found, fit, seconds)
            models[name].append((model, test))
    if "alone" in rows:
        model = models["typed"][-1][0]
        lines = np.concatenate([graph.nodes["line"] for graph in model.graphs(X)])
        labels = np.concatenate(y)
        ends = np.cumsum([page.n_boxes for page in new])[:-1]
        unseen = np.concatenate([graph.nodes["line"] for graph in model.graphs(new)])
        for name, one in (
            ("boosting_alone", boosting()),
            ("logistic_alone", make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))),
        ):
            fitted, fit = timed(lambda one=one: one.fit(lines, labels))
            table[name].add(test, np.split(fitted.predict(unseen), ends), fit)


def under_rules(name, source, models, pages, gold, table):
    """Decode every fold under all candidates; take, for each fold, the one that is best on the others."""
    found = {}
    for fold, (model, test) in enumerate(models[source]):
        for label, rules in CANDIDATES.items():
            new = [pages[i] for i in test]
            labelings, seconds = timed(lambda model=model, new=new, rules=rules: model.decode(new, rules=rules))
            hits = sum(a == b for i, one in zip(test, labelings) for a, b in zip(one.labels, gold[i]))
            found[fold, label] = (labelings, seconds, hits)
    chosen = []
    for fold, (_, test) in enumerate(models[source]):
        others = [k for k in range(len(models[source])) if k != fold] or [fold]
        best = max(CANDIDATES, key=lambda label: sum(found[k, label][2] for k in others))
        table[name].add(test, found[fold, best][0], seconds=found[fold, best][1])
        chosen.append(best)
    hard = [one for fold in range(len(models[source])) for one in found[fold, "hard"][0]]
    accuracy = {label: sum(found[k, label][2] for k in range(len(models[source]))) for label in CANDIDATES}
    return chosen, sum(b.amount for one in hard for b in one.broken), accuracy


def gold_breaks(models, pages, gold):
    """How often gold breaks the hard rules, and of how many pairs below each other."""
    broken = pairs = 0
    for model, test in models["typed"]:
        for i, graph in zip(test, model.graphs([pages[i] for i in test])):
            broken += sum(violation_on_graph(rule, graph, {"line": gold[i]}) for rule in HARD)
            pairs += len(graph.relations["below"][2])
    return broken, pairs


def ladder(model, graphs, joint):
    """Header labels as a second type on the same lines, tied to the rows; header edges have flags only."""
    names = model._encoder.edge_names("line")
    flags = [k for k, name in enumerate(names) if "~" not in name]
    made = []
    for graph in graphs:
        pairs, features = graph.edges["line", "line"]
        nodes = {"header": graph.nodes["line"]}
        edges = {("header", "header"): (pairs, np.ascontiguousarray(features[:, flags]))}
        if joint:
            n = len(graph.nodes["line"])
            nodes["line"] = graph.nodes["line"]
            edges["line", "line"] = (pairs, features)
            edges["header", "line"] = np.repeat(np.arange(n)[:, None], 2, axis=1)
        made.append(rf.TypedGraph(nodes, edges))
    return made


def header_fold(model, pages, gold, header, train, test, table):
    for name, joint in (("header_alone", False), ("header", True)):
        graphs = ladder(model, model.graphs([pages[i] for i in train]), joint)
        y = [{"header": header[i], **({"line": gold[i]} if joint else {})} for i in train]
        crf, fit = timed(lambda graphs=graphs, y=y: rf.GraphCRF(l2=2.0).fit(graphs, y))
        found = crf.predict(ladder(model, model.graphs([pages[i] for i in test]), joint))
        table[name].add(test, [one["header"] for one in found], fit)
        if joint:
            table["header_rows"].add(test, [one["line"] for one in found])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--pages", type=int, default=None)
    options = parser.parse_args()
    pages, truth = load("row")[: options.pages], gold_cells()[: options.pages]
    gold = [list(page.labels) for page in pages]
    header = [list(page.labels) for page in load("header")[: options.pages]]
    books, fold = fold_of_books(pages)
    table, models = defaultdict(Scores), defaultdict(list)
    rows = set(options.rows) | ({"typed"} if {"rules", "alone", "header"} & set(options.rows) else set())
    for f in options.folds:
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        learn_fold(rows, pages, gold, books, train, test, table, models)
        if "header" in rows:
            header_fold(models["typed"][-1][0], pages, gold, header, train, test, table)
        for name in table:
            hits = right(table[name], header if name in ("header", "header_alone") else gold)
            print(f"fold {f} {name:<15} {np.mean(np.concatenate([hits[i] for i in test])):.4f}", flush=True)
    result = {"pages": len(pages), "lines": sum(map(len, gold))}
    pairs = {}
    for model, test in models["typed"]:
        for i, graph in zip(test, model.graphs([pages[i] for i in test])):
            pairs[i] = graph.relations["next in region"][2]
    if "rules" in rows:
        chosen, broken, by_candidate = under_rules("rules", "typed", models, pages, gold, table)
        if "predictors" in rows:
            under_rules("predictors_rules", "predictors", models, pages, gold, table)
    cells_of = truth if pairs else None
    before = {"typed": "linear", "rules": "typed", "predictors_rules": "rules"}
    for name in ("linear", "typed", "rules", "predictors", "predictors_rules", "boosting_alone", "logistic_alone"):
        if name in table:
            old = table.get(before.get(name))
            result[name] = summary(table[name], gold, books, cells_of, pairs, old)
    if "predictors_rules" in result:
        without = result.pop("predictors")
        result["predictors"] = result.pop("predictors_rules") | {"fit_cpu_s": without["fit_cpu_s"]}
        result["predictors_without_rules"] = without
    if "rules" in result:
        wrong, all_pairs = gold_breaks(models, pages, gold)
        lines = sum(len(gold[i]) for i in table["rules"].labels)
        result["rules"] |= {"broken": int(broken), "gold_broken": wrong, "pairs": all_pairs, "chosen": chosen}
        result["rules"]["candidates"] = {key: round(hits / lines, 5) for key, hits in by_candidate.items()}
    if "header" in rows:
        result["header"] = summary(table["header"], header, books, None, pairs)
        result["header"]["alone"] = summary(table["header_alone"], header, books, None, pairs)["accuracy"]
        result["header"]["rows"] = summary(table["header_rows"], gold, books, None, pairs)["accuracy"]
    for name, row in result.items():
        print(f"{name:<17} {row}")
    rows_of = {name: row for name, row in result.items() if isinstance(row, dict)}
    for key, pick in (("fit_cpu_s", max), ("certified", min)):
        result[key] = pick([row[key] for row in rows_of.values() if key in row], default=None)
    ruled = [rows_of[name]["decode_ms_a_page"] for name in ("rules", "predictors") if name in rows_of]
    result["decode_ms_a_page"] = max(ruled, default=None)
    result["cells_f1"] = {name: row["cells_f1"] for name, row in rows_of.items() if "cells_f1" in row}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
