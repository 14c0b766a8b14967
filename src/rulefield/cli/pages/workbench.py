"""The workbench without its web server: a parser, some data, rules that come with every question, corrections."""

import copy
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.cli.pages.report import read_labeled
from rulefield.cli.reading import Reading
from rulefield.data.documents import joined
from rulefield.encode.formats.base import compact
from rulefield.encode.schemes import guess_scheme
from rulefield.encode.spans import Span, convert, spans
from rulefield.estimators.progress import listening
from rulefield.exceptions import InfeasibleError, InputError, RuleError, RulefieldError
from rulefield.report.certainty import certainty, label_set
from rulefield.report.marks import hues, word_of
from rulefield.report.study import acting_rules, scheme_of
from rulefield.report.suggest import suggest
from rulefield.rules import RuleCompiler
from rulefield.rules.finding.check import amounts_table
from rulefield.rules.rule import Rule
from rulefield.rules.text import dumps, from_dicts, to_dicts

MOST_RULES = 200
MOST_TEXTS = 1_000
LONGEST_TEXT = 50_000
MOST_CORRECTED = 500_000
"""Tokens of all corrections that one run takes: about 100 MB of memory."""
ALTERNATIVES = 5


@dataclass
class Item:
    """One text of the data: its tokens, where they stand, gold labels if known, whether a person corrected them."""

    text: str
    places: list[tuple[int, int]]
    tokens: list[Any]
    gold: list[str] | None = None
    corrected: bool = False


class Workbench:
    """What the page and the API ask for; every question brings its own rules, so that questions do not disturb each other.

    Parameters
    ----------
    parser : TextParser
    items : list of Item
    corrections : str, optional
        JSON lines to which corrections are added.
    """

    def __init__(self, parser: Any, items: Sequence[Item] = (), corrections: str | None = None):
        self.parser, self.items, self.corrections = parser, list(items), corrections
        self.lock = threading.Lock()
        self._predicted: tuple[Any, ...] = ()
        self._n_corrected = 0
        self.training: dict[str, Any] = {"state": "idle"}

    @property
    def model(self) -> Any:
        """The model inside, one thread per question."""
        return self.parser.model_

    @property
    def scheme(self) -> str | None:
        """Label scheme of the model; guessed where it has none."""
        return scheme_of(self.model) or str(guess_scheme(sorted(label_set(self.model))))

    def about(self) -> dict[str, Any]:
        """Return what the page needs to begin: labels with their colors, the model's rules, the size of the data."""
        types = sorted({s.type for label in label_set(self.model) for s in spans([label], self.scheme)} - {"O"})
        return {
            "model": type(self.model).__name__,
            "types": types,
            "hues": hues(types),
            "rules": [{"on": True, **entry} for entry in to_dicts(acting_rules(self.model))],
            "items": len(self.items),
            "gold": sum(item.gold is not None for item in self.items),
            "corrected": sum(item.corrected for item in self.items),
        }

    # --- one text ---------------------------------------------------------------------------------

    def view(self, index: int | None, text: str | None, rules: list[Rule]) -> dict[str, Any]:
        """Label one text, with and without the rules; probabilities, alternatives, or why nothing is possible."""
        item = self._item(index, text)
        base: dict[str, Any] = {"text": item.text, "tokens": item.places, "corrected": item.corrected}
        base["gold"] = None if item.gold is None else self._spans(item.gold)
        if not item.tokens:
            return {
                **base,
                "spans": [],
                "plain": [],
                "chances": [],
                "broken": [],
                "alternatives": [],
                "probability": 1.0,
            }
        plain = list(self.model.predict([item.tokens], rules=[])[0])
        try:
            labeling = self.model.decode([item.tokens], rules=rules)[0]
        except InfeasibleError as error:
            return {**base, "plain": self._spans(plain), "conflict": list(error.rules), "message": str(error)}
        sure = certainty(self.model, [item.tokens], [labeling.labels], rules)
        broken = [{"rule": b.rule, "amount": b.amount, "cost": _finite(b.cost)} for b in labeling.broken]
        return {
            **base,
            "spans": self._spans(labeling.labels),
            "plain": self._spans(plain),
            "chances": [round(float(p), 4) for p in sure.tokens[0]],
            "probability": float(sure.whole[0]),
            "broken": broken,
            "status": labeling.status,
            "alternatives": self._alternatives(item, rules),
        }

    def _alternatives(self, item: Item, rules: list[Rule]) -> list[dict[str, Any]]:
        """Return the best of the model's 30 best labelings after the rules are paid for."""
        plain = getattr(self.model, "estimator_", self.model)
        best = plain.predict_kbest([item.tokens], rules=[], k=30)[0]
        amounts = self._amounts(rules, [item.tokens] * len(best), [labels for labels, _ in best])
        paid = [sum(rule.cost(float(a)) for rule, a in zip(rules, column) if a) for column in amounts.T]
        worth = np.array([p * np.exp(-c) for (_, p), c in zip(best, paid)])
        if not worth.any():  # none of them obeys the hard rules
            return self._few_alternatives(item, rules)
        order = [int(k) for k in np.argsort(-worth, kind="stable")[:ALTERNATIVES] if worth[k] > 0]
        total = max(float(worth.sum()), 1e-300)
        return [{"spans": self._spans(best[k][0]), "share": round(float(worth[k]) / total, 4)} for k in order]

    def _few_alternatives(self, item: Item, rules: list[Rule]) -> list[dict[str, Any]]:
        try:
            best = self.model.predict_kbest([item.tokens], rules=rules, k=ALTERNATIVES)[0]
        except InputError:  # too many rules to sum over
            return []
        return [{"spans": self._spans(labels), "share": round(float(p), 4)} for labels, p in best]

    def _item(self, index: int | None, text: str | None) -> Item:
        if index is not None:
            if not 0 <= index < len(self.items):
                raise InputError(f"index must be from 0 to {len(self.items) - 1}; got {index}.")
            return self.items[index]
        if not isinstance(text, str) or len(text) > LONGEST_TEXT:
            raise InputError(f"text must be a string of at most {LONGEST_TEXT:,} characters.")
        places = self.parser._tokenizer(text)
        return Item(text, places, [text[a:b] for a, b in places])

    def _spans(self, labels: Sequence[Any]) -> list[list[Any]]:
        found = spans([str(label) for label in labels], self.scheme) if len(labels) else []
        return [[s.start, s.stop, s.type] for s in found if s.type != "O"]

    def _amounts(self, rules: list[Rule], tokens: Sequence[Any], labels: Sequence[Any]) -> np.ndarray:
        if not rules:
            return np.zeros((0, len(labels)))
        return amounts_table(rules, tokens, labels, self.scheme, sorted(label_set(self.model)))

    # --- rules ------------------------------------------------------------------------------------

    def rules(self, entries: Any) -> list[Rule] | None:
        """Read the rules that a question brings (those that are on); None: the model's own."""
        if entries is None:
            return None
        found = self.check(entries)
        wrong = next((row for row in found if "error" in row), None)
        if wrong is not None:
            raise RuleError(wrong["error"])
        return from_dicts([_entry(entry) for entry in entries if entry.get("on", True)])

    def acting(self, entries: Any) -> list[Rule]:
        """Return the rules of a question, the model's own where it brings none."""
        return acting_rules(self.model, self.rules(entries))

    def check(self, entries: Any) -> list[dict[str, Any]]:
        """Read each rule by itself: its text, or the error and the place (character) where it is."""
        if not isinstance(entries, list) or len(entries) > MOST_RULES:
            raise InputError(f"rules must be a list of at most {MOST_RULES} rules.")
        return [self._checked(entry) for entry in entries]

    def _checked(self, entry: Any) -> dict[str, Any]:
        if not isinstance(entry, Mapping):
            return {"error": "a rule must be an object with the key 'rule'.", "at": 0}
        try:
            rule = from_dicts([_entry(entry)])[0]
            RuleCompiler([rule.soft(1.0) if rule.is_open else rule], sorted(label_set(self.model)), self.scheme)
            return {"text": rule.text}
        except RulefieldError as error:
            return {"error": str(error), "at": _place(str(entry.get("rule", "")), error)}

    def effect(self, rules: list[Rule], before: list[Rule]) -> dict[str, Any]:
        """Count what ``rules`` change in the whole data in place of ``before``, right and wrong where gold is known."""
        places = [i for i, item in enumerate(self.items) if item.tokens]
        tokens = [self.items[i].tokens for i in places]
        old, new = self._before(tokens, before), self._predict(tokens, rules)
        changed = [k for k in range(len(tokens)) if old[k] != new[k]]
        better = worse = 0
        for k in changed:
            gold = self.items[places[k]].gold
            if gold is not None:
                better += sum(a != g and b == g for a, b, g in zip(old[k], new[k], gold))
                worse += sum(a == g and b != g for a, b, g in zip(old[k], new[k], gold))
        amounts = self._amounts(rules, tokens, new)
        return {
            "items": len(tokens),
            "changed": [places[k] for k in changed],
            "better": better,
            "worse": worse,
            "broken": (amounts > 0).sum(axis=1).tolist(),
        }

    def _predict(self, tokens: list[Any], rules: list[Rule]) -> list[list[str]]:
        model = copy.copy(self.model)
        model.n_jobs, model.on_infeasible = -1, "relax"
        return list(model.predict(tokens, rules=rules))

    def _before(self, tokens: list[Any], rules: list[Rule]) -> list[list[str]]:
        """Predict under the rules that changes are counted against: the same ones question after question, so kept."""
        asked = (self.model, len(tokens), dumps(rules))
        known = self._predicted
        if not known or known[:3] != asked:
            self._predicted = known = (*asked, self._predict(tokens, rules))
        return known[3]

    def next(self, rules: list[Rule]) -> int | None:
        """Return the text that a person should label next: among those that nobody corrected."""
        open_ = [i for i, item in enumerate(self.items) if item.tokens and not item.corrected]
        open_ = [i for i in open_ if self.items[i].gold is None] or open_
        found = suggest(self.model, [self.items[i].tokens for i in open_], 1, rules=rules) if open_ else []
        return open_[found[0].index] if found else None

    # --- corrections ------------------------------------------------------------------------------

    def correct(self, index: int | None, text: str | None, marks: Any) -> dict[str, Any]:
        """Take a person's segments, [first token, after the last, type], as gold; they are saved as JSON lines."""
        item = self._item(index, text)
        gold = self._labels(len(item.tokens), marks)
        with self.lock:
            self._count(item)
            item.gold, item.corrected = gold, True
            if index is None:
                index = len(self.items)
                self.items.append(item)
            record = self._record(item)
            if self.corrections:
                with open(self.corrections, "a", encoding="utf-8") as file:
                    file.write(compact(record) + "\n")
        return {"index": index, "corrected": sum(i.corrected for i in self.items), **record}

    def _count(self, item: Item) -> None:
        if self._n_corrected + len(item.tokens) > MOST_CORRECTED:
            where = f"; those so far are in {self.corrections}" if self.corrections else ""
            raise InputError(
                f"one run takes corrections of {MOST_CORRECTED:,} tokens: start the server again{where}."
            )
        self._n_corrected += len(item.tokens)

    def _record(self, item: Item) -> dict[str, Any]:
        marks = self._spans(item.gold or [])
        return {
            "text": item.text,
            "label": [[item.places[a][0], item.places[b - 1][1], kind] for a, b, kind in marks],
        }

    def _labels(self, n: int, marks: Any) -> list[str]:
        labels, last = ["O"] * n, 0
        try:
            found = sorted(Span(int(a), int(b), str(kind)) for a, b, kind in marks)
        except (TypeError, ValueError, OverflowError):
            raise InputError("spans must be a list of [first token, after the last token, type].") from None
        for a, b, kind in found:
            if not last <= a < b <= n:
                raise InputError(f"a span from token {a} to {b} does not lie in {n} tokens, or overlaps another.")
            labels[a:b], last = [f"B-{kind}", *[f"I-{kind}"] * (b - a - 1)], b
        return convert(labels, "BIO", scheme_of(self.model))

    def records(self) -> str:
        """Return all corrections as JSON lines, as the file has them."""
        return "".join(compact(self._record(item)) + "\n" for item in list(self.items) if item.corrected)

    def retrain(self) -> dict[str, Any]:
        """Begin to train again, in the background, on all gold and corrected texts; the old model serves until then."""
        known = [item for item in self.items if item.gold is not None and item.tokens]
        if not known:
            raise InputError(
                "there is nothing to learn from: correct some texts, or start with --data FILE that has labels."
            )
        with self.lock:
            if self.training["state"] == "training":
                return self.training
            self.training = {"state": "training", "texts": len(known), "began": time.time()}
        threading.Thread(target=self._train, args=(known,), daemon=True).start()
        return self.training

    def _train(self, known: list[Item]) -> None:
        begun = self.training

        def heard(record: Any) -> None:
            begun.update(iteration=record.iteration, objective=round(float(record.objective), 4))

        try:
            with listening(heard):
                made = refitted(self.model, [item.tokens for item in known], [item.gold for item in known])
            parser = copy.copy(self.parser)
            parser.model_ = made
            self.parser = parser
            begun.update(state="done", seconds=round(time.time() - begun["began"], 2))
        except Exception as error:  # whatever it is, the next training may begin
            begun.update(state="failed", message=str(error) or type(error).__name__)


def refitted(model: Any, X: list[Any], y: list[Any]) -> Any:
    """Return a copy of a model fitted to other data, a chain from where it stands; learned rules are kept."""
    made = copy.copy(model)
    if model._kind == "ruled":
        made.estimator_ = refitted(model.estimator_, X, y)
        return made
    made = copy.deepcopy(model)
    if model._kind == "chain":
        made.set_params(warm_start=True)
    return made.fit(X, y)


def items_of(parser: Any, path: str, form: "str | Reading" = "auto") -> list[Item]:
    """Read the data of a workbench: token sequences for a plain model, texts in any format for a parser."""
    if parser.model is not parser.model_ or path.lower().endswith((".txt", ".log")):
        return _text_items(parser, path, form)
    try:
        tokens, labels = read_labeled(parser.model_, path, form)
    except InputError:
        return _text_items(parser, path, form)
    made = []
    for row, gold in zip(tokens, labels):
        text, places = joined([word_of(token) for token in row])
        known = all(isinstance(label, str) for label in gold)
        made.append(Item(text, list(places), list(row), list(gold) if known else None))
    return made


def _text_items(parser: Any, path: str, form: "str | Reading") -> list[Item]:
    from rulefield.cli.pages.next import read_texts

    documents = read_texts(path, form)
    made = []
    for document in documents:
        places = parser._tokenizer(document.text)
        item = Item(document.text, places, [document.text[a:b] for a, b in places])
        if document.spans is not None:
            item.gold = parser.labeled_tokens([document])[1][0]
        made.append(item)
    return made


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in entry.items() if key in ("name", "rule", "weight", "per") and value is not None
    }


def _place(text: str, error: Exception) -> int:
    """Return the character of a rule's text that an error is about: a syntax error's, or the word that it quotes first."""
    cause = error.__cause__
    if isinstance(cause, SyntaxError) and cause.offset:
        return max(0, min(cause.offset - 1, len(text)))
    for word in str(error).split("'")[1::2]:
        if word and word != text.strip() and word in text:
            return text.index(word)
    return 0


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
