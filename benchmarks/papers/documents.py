"""Lines of handwritten tables ([Meunier17]'s own application): which are first, inside, last or single in their cell.

111 pages of 99 books, 29,752 lines, 3,029 ruled separators; five folds by book. Rows of the table:

``linear``      DocumentTagger with lines alone: one type of thing, separators unread.
``typed``       lines and separators in one graph: separators across the page are nodes with two hidden states, joined to the
                lines above and below; all decorate the edges between lines and cut the page into regions.
``rules``       + down a column B I* E or S, along ``only below``: hard, unless ``rf.choose_rules`` finds, in three folds of
                the books that the fold learns from, that soft or no rules are better by more than their standard error.
``predictors``  + gradient boosting inside, cross-fitted by book, under the same rules.
``boosting_alone``, ``logistic_alone``  the same features of lines without structure.

``cells_f1``: cells recovered exactly, all their lines and no other. ``gain_low``: lower end of the 95 % interval of the
difference to the row before, books drawn with replacement. ``broken``: hard rules that predictions under them break.
``gold_broken``: the same of the true labels, among ``pairs``.

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/documents.py`` (``--folds 0 1`` for some of the
folds, ``--rows linear typed`` for some of the rows, ``--keep DIR`` to keep each fold's answers and go on from them).
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rulefield as rf
from common import data_folder, kept, timed
from rulefield import rules as r
from rulefield.encode.documents.files import read_pages
from rulefield.rules.nodes import violation_on_graph

ROWS = ("linear", "typed", "rules", "predictors", "alone")
GOES_ON = r.followed_by(["B", "I"], ["I", "E"], level="token")
BEGINS = r.followed_by(["E", "S", "O"], ["B", "S", "O"], level="token")
BEFORE = {"typed": "linear", "rules": "typed", "predictors": "rules"}


def order(relation, weight=None):
    """The order of a column, hard or at a price."""
    made = [r.along(relation, rule) for rule in (GOES_ON, BEGINS)]
    return made if weight is None else [rule.soft(weight) for rule in made]


HARD = order("below")
CANDIDATES = {
    "hard": order("only below"),
    **{f"soft {w:g}": order("only below", w) for w in (0.3, 1.0, 3.0)},
    "none": [],
}


def boosting():
    return HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, random_state=0)


class Data:
    """All pages, with labels of rows, cells (for evaluation only), books and folds."""

    def __init__(self):
        path = data_folder() / "abp" / "pages_111.jsonl.gz"

        def labels(field):
            return [list(page.labels) for page in read_pages(path, field)]

        self.pages = read_pages(path, "row")
        self.rows, self.cells = labels("row"), labels("cell")
        self.books = np.array([page.name.rsplit("_", 1)[0] for page in self.pages])
        names = sorted(set(self.books))
        place = {names[k]: i % 5 for i, k in enumerate(np.random.default_rng(0).permutation(len(names)))}
        self.fold = np.array([place[book] for book in self.books])


class Fold:
    """One fold: what is learned from the other books, and what it says of this fold's pages."""

    def __init__(self, data, number):
        self.data, self.number = data, number
        self.train, self.test = np.flatnonzero(data.fold != number), np.flatnonzero(data.fold == number)
        self.X, self.y = [data.pages[i] for i in self.train], [data.rows[i] for i in self.train]
        self.new = [data.pages[i] for i in self.test]
        self.found = {"test": self.test.tolist(), "rows": {}}

    def run(self, rows):
        """Fit all rows that are asked for; return what :func:`summary` reads."""
        if "linear" in rows:
            self.learn("linear", rf.DocumentTagger(separators=False))
        self.typed = self.learn("typed", rf.DocumentTagger())
        self.places()
        rules = self.under_rules() if "rules" in rows else []
        if "predictors" in rows:
            inside = rf.GraphCRF(l2=2.0, random_state=0, predictors={"line": [boosting()]})
            self.learn("predictors", rf.DocumentTagger(model=inside), rules)
        if "alone" in rows:
            self.alone()
        return self.found

    def keep(self, name, labels, fit=None, seconds=None, statuses=()):
        hits = [a == b for row, i in zip(labels, self.test) for a, b in zip(row, self.data.rows[i])]
        print(f"fold {self.number} {name:<15} {np.mean(hits):.4f}  fit {fit or 0:.1f} CPU s", flush=True)
        self.found["rows"][name] = {"labels": [list(map(str, row)) for row in labels], "fit": fit}
        if seconds is not None:
            proved = float(np.mean([status == "optimal" for status in statuses]))
            self.found["rows"][name] |= {"decode": 1000 * seconds / len(self.new), "certified": proved}

    def learn(self, name, tagger, rules=()):
        model, fit = timed(lambda: tagger.fit(self.X, self.y, groups=self.data.books[self.train]))
        found, seconds = timed(lambda: model.decode(self.new, rules=list(rules)))
        self.keep(name, [one.labels for one in found], fit, seconds, [one.status for one in found])
        return model

    def places(self):
        """Lines one after the other in a region, by which cells are counted; how often gold breaks the hard rules."""
        graphs = self.typed.graphs(self.new)
        self.found["after"] = [graph.relations["next in region"][2].tolist() for graph in graphs]
        told = [({"line": self.data.rows[i]}, graph) for i, graph in zip(self.test, graphs)]
        wrong = sum(violation_on_graph(rule, graph, labels) for labels, graph in told for rule in HARD)
        pairs = sum(len(graph.relations["below"][2]) for graph in graphs)
        hard = self.typed.decode(self.new, rules=HARD)
        broken = sum(b.amount for one in hard for b in one.broken)
        self.found |= {"gold_broken": int(wrong), "pairs": pairs, "broken": int(broken)}

    def under_rules(self):
        """Choose between hard and soft on held-out books of the training pages, then predict."""
        books = self.data.books[self.train]
        choice, seconds = timed(
            lambda: rf.choose_rules(rf.DocumentTagger(), self.X, self.y, CANDIDATES, groups=books, cv=3)
        )
        self.found |= {"chosen": choice.name, "held_out": choice.scores, "choice_cpu_s": seconds}
        found, seconds = timed(lambda: self.typed.decode(self.new, rules=choice.rules))
        self.keep("rules", [one.labels for one in found], None, seconds, [one.status for one in found])
        return choice.rules

    def alone(self):
        lines = np.concatenate([graph.nodes["line"] for graph in self.typed.graphs(self.X)])
        unseen = np.concatenate([graph.nodes["line"] for graph in self.typed.graphs(self.new)])
        ends = np.cumsum([page.n_boxes for page in self.new])[:-1]
        logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
        for name, one in (("boosting_alone", boosting()), ("logistic_alone", logistic)):
            fitted, fit = timed(lambda one=one: one.fit(lines, np.concatenate(self.y)))
            self.keep(name, np.split(fitted.predict(unseen), ends), fit)


def cells(labels, pairs):
    """Sets of lines that labels make cells: down a region, B opens one, I and E go on, S stands alone."""
    after = dict(pairs)
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


def cells_f1(labels, truth, after):
    """Cells found exactly, F1 over all pages."""
    exact = found = wanted = 0
    for i, row in labels.items():
        groups = defaultdict(set)
        for line, cell in enumerate(truth[i]):
            if cell is not None:
                groups[tuple(cell)].add(line)
        true, guess = {frozenset(g) for g in groups.values()}, cells(row, after[i])
        exact, found, wanted = exact + len(true & guess), found + len(guess), wanted + len(true)
    return 2 * exact / (found + wanted)


def gain_low(hits, before, books, draws=2000):
    """Lower end of the 95 % interval of the difference of accuracies, books drawn with replacement."""
    by_book = defaultdict(lambda: np.zeros(2))
    for i, row in hits.items():
        by_book[books[i]] += [row.sum() - before[i].sum(), len(row)]
    table = np.array(list(by_book.values()))
    rng = np.random.default_rng(0)
    drawn = table[rng.integers(len(table), size=(draws, len(table)))].sum(axis=1)
    return float(np.quantile(drawn[:, 0] / drawn[:, 1], 0.025))


def summary(data, folds):
    """All rows of the table, from what the folds found."""
    after = {i: pairs for fold in folds for i, pairs in zip(fold["test"], fold["after"])}
    result, hits = {}, {}
    for name in folds[0]["rows"]:
        parts = [fold["rows"][name] for fold in folds]
        labels = {i: row for fold, part in zip(folds, parts) for i, row in zip(fold["test"], part["labels"])}
        hits[name] = {i: np.array([a == b for a, b in zip(row, data.rows[i])]) for i, row in labels.items()}
        result[name] = {"accuracy": float(np.concatenate(list(hits[name].values())).mean())}
        result[name]["by_fold"] = [
            round(float(np.mean(np.concatenate([hits[name][i] for i in fold["test"]]))), 4) for fold in folds
        ]
        if BEFORE.get(name) in hits:
            result[name]["gain_low"] = gain_low(hits[name], hits[BEFORE[name]], data.books)
        result[name]["cells_f1"] = cells_f1(labels, data.cells, after)
        if parts[0]["fit"] is not None:
            result[name]["fit_cpu_s"] = max(part["fit"] for part in parts)
        if "decode" in parts[0]:
            result[name]["decode_ms_a_page"] = max(part["decode"] for part in parts)
            result[name]["certified"] = min(part["certified"] for part in parts)
    if "rules" in result:
        result["rules"] |= {key: sum(fold[key] for fold in folds) for key in ("broken", "gold_broken", "pairs")}
        result["rules"]["chosen"] = [fold["chosen"] for fold in folds]
        result["rules"]["choice_cpu_s"] = max(fold["choice_cpu_s"] for fold in folds)
    return result


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    data = Data()
    folds = [
        kept(options.keep, f"fold{number}", lambda number=number: Fold(data, number).run(set(options.rows)))
        for number in options.folds
    ]
    result = rounded(summary(data, folds))
    for name, row in result.items():
        print(f"{name:<15} {row}")
    rows = dict(result)
    result |= {"pages": sum(len(fold["test"]) for fold in folds), "folds": len(folds)}
    for key, pick in (("fit_cpu_s", max), ("certified", min)):
        result[key] = pick(row[key] for row in rows.values() if key in row)
    ruled = [rows[name]["decode_ms_a_page"] for name in ("rules", "predictors") if name in rows]
    result["decode_ms_a_page"] = max(ruled, default=None)
    result["cells_f1"] = {name: row["cells_f1"] for name, row in rows.items() if "cells_f1" in row}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
