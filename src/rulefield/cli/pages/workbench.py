"""The workbench without its web server: a parser or label names, some data, rules that come with every question, corrections.

Fields are spans of characters everywhere: what is shown, corrected, counted and saved.
"""

import copy
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rulefield.cli.pages.items import Item, Mark, checked_marks
from rulefield.encode.alignment import align
from rulefield.encode.formats.base import compact
from rulefield.encode.formats.label_studio import _as_task
from rulefield.encode.schemes import guess_scheme
from rulefield.encode.spans import spans
from rulefield.encode.tokenizers import as_tokenizer
from rulefield.estimators.fitting import listening
from rulefield.exceptions import InfeasibleError, InputError, RuleError, RulefieldError
from rulefield.metrics import text_span_f1
from rulefield.report.certainty import certainty, label_set
from rulefield.report.marks import hues
from rulefield.report.study import acting_rules, scheme_of
from rulefield.report.suggest import suggest
from rulefield.rules import RuleCompiler
from rulefield.rules.finding.check import amounts_table
from rulefield.rules.rule import Rule
from rulefield.rules.text import dumps, from_dicts, to_dicts

MOST_RULES = 200
MOST_TEXTS = 1_000
LONGEST_TEXT = 50_000
MOST_CORRECTED_BYTES = 100_000_000
"""Memory that the corrections of one run may take, about."""
ALTERNATIVES = 5
FIRST_TRAINING = 20
"""Texts labeled by hand after which a workbench without a model trains one."""
KINDS = ("all", "open", "gold", "corrected", "wrong")
"""What the list of texts can be narrowed to: without labels, with labels, corrected here, not as the model labels them."""


@dataclass(eq=False)
class Workbench:
    """What the page and the API ask for; every question brings its own rules, so that questions do not disturb each other."""

    first_parser: InitVar[Any] = None
    """Without one, ``labels`` are given: the first texts are labeled by hand, and a parser is trained on them."""
    items: list[Item] = field(default_factory=list)
    corrections: str | None = None
    """JSON lines to which corrections are added."""
    path: str | None = None
    """The model file: rules are saved into it."""
    data: str | None = None
    """Name of the data, to be shown."""
    labels: Sequence[str] = ()
    """Names of labels beside those of the model and the data."""
    kept: list[dict[str, Any]] | None = field(init=False, default=None)
    """Rules as the page had them last."""
    training: dict[str, Any] = field(init=False, default_factory=lambda: {"state": "idle"})

    def __post_init__(self, first_parser: Any) -> None:
        self._parser, self._corrected_bytes = first_parser, 0
        self._predicted: tuple[Any, ...] = ()
        self.lock = threading.Lock()

    @property
    def parser(self) -> Any:
        """The parser that answers."""
        if self._parser is None:
            raise InputError("there is no model yet: label some texts, then train.")
        return self._parser

    @parser.setter
    def parser(self, parser: Any) -> None:
        self._parser = parser

    @property
    def model(self) -> Any:
        """The model inside, one thread per question."""
        return self.parser.model_

    @property
    def scheme(self) -> str | None:
        """Label scheme of the model; guessed if it has none."""
        if self._parser is None:
            return "BIO"
        return scheme_of(self.model) or str(guess_scheme(sorted(label_set(self.model))))

    @property
    def types(self) -> list[str]:
        """Names of fields: those of the model, of the data, and those that were given."""
        marked = {kind for item in self.items for *_, kind in item.gold or ()}
        known = set() if self._parser is None else label_set(self.model)
        return sorted(marked | {*self.labels} | ({s.type for x in known for s in spans([x], self.scheme)} - {"O"}))

    @property
    def _label_set(self) -> list[str]:
        if self._parser is None:
            return ["O", *(f"{prefix}-{kind}" for kind in self.types for prefix in "BI")]
        return sorted(label_set(self.model))

    def about(self) -> dict[str, Any]:
        """Return what the page needs to begin: names, labels with their colors, rules, the size of the data."""
        own = [] if self._parser is None else [{"on": True, **entry} for entry in to_dicts(acting_rules(self.model))]
        types = self.types
        return {
            "model": None if self._parser is None else type(self.model).__name__,
            "path": None if self.path is None else Path(self.path).name,
            "data": None if self.data is None else Path(self.data).name,
            "types": types,
            "hues": hues(types),
            "own": own,
            "rules": own if self.kept is None else self.kept,
            "items": len(self.items),
            "gold": sum(item.gold is not None for item in self.items),
            "corrected": sum(item.corrected for item in self.items),
            "first_training": FIRST_TRAINING,
        }

    # --- texts ------------------------------------------------------------------------------------

    def parse(self, text: Any = None, texts: Any = None, rules: Any = None, probabilities: Any = False) -> list[str]:
        """Parse texts.

        Each is one object of JSON.
        """
        wanted, chances = parse_question({"text": text, "texts": texts, "probabilities": probabilities})
        return list(self.parser.parse_json(wanted, rules=self.rules(rules), probabilities=chances))

    def predict_tasks(self, tasks: Any = None, **_: Any) -> dict[str, Any]:
        """Label Studio: predictions for its tasks."""
        if not isinstance(tasks, list):
            raise InputError(f"tasks must be a list of at most {MOST_TEXTS:,} tasks.")
        texts, _chances = parse_question({"texts": [_text_of(task) for task in tasks]})
        parses = self.parser.parse_all(texts, probabilities=True)
        empty = {"model_version": "rulefield", "score": 0.0, "result": []}
        return {"results": [(_as_task(parse.document).get("predictions") or [empty])[0] for parse in parses]}

    def setup(self, **_: Any) -> dict[str, Any]:
        """Label Studio: the model's version."""
        return {"model_version": "rulefield"}

    def view(self, index: Any = None, text: Any = None, rules: Any = None) -> dict[str, Any]:
        """Label one text, with and without the rules; probabilities, alternatives, or why nothing is possible."""
        item, acting = self._item(index, text), self.acting(rules)
        base: dict[str, Any] = {"text": item.text, "tokens": item.shown_places, "corrected": item.corrected}
        base["gold"] = item.gold
        if self._parser is None or not item.tokens:
            lists: dict[str, Any] = {name: [] for name in ("spans", "plain", "chances", "broken", "alternatives")}
            return {**base, **lists, "probability": None}
        plain = list(self.model.predict([item.tokens], rules=[])[0])
        try:
            labeling = self.model.decode([item.tokens], rules=acting)[0]
        except InfeasibleError as error:
            return {**base, "plain": self._marks(item, plain), "conflict": list(error.rules), "message": str(error)}
        sure = certainty(self.model, [item.tokens], [labeling.labels], acting)
        broken = [{"rule": b.rule, "amount": b.amount, "cost": _finite(b.cost)} for b in labeling.broken]
        return {
            **base,
            "spans": self._marks(item, labeling.labels),
            "plain": self._marks(item, plain),
            "chances": _chances(item, sure.tokens[0]),
            "probability": float(sure.whole[0]),
            "broken": broken,
            "status": labeling.status,
            "alternatives": self._alternatives(item, acting),
        }

    def _alternatives(self, item: Item, rules: list[Rule]) -> list[dict[str, Any]]:
        """Return the best labelings under the rules with their probabilities; none if no labeling obeys hard rules."""
        plain = getattr(self.model, "estimator_", self.model)
        try:
            best = plain.predict_kbest([item.tokens], rules=rules, k=ALTERNATIVES)[0]
        except InfeasibleError:
            return []
        return [{"spans": self._marks(item, labels), "probability": float(p)} for labels, p in best]

    def _item(self, index: Any, text: Any) -> Item:
        if index is not None:
            if type(index) is not int:
                raise InputError(f"index must be a whole number; got {index!r:.40}.")
            if not 0 <= index < len(self.items):
                raise InputError(f"index must be from 0 to {len(self.items) - 1}; got {index}.")
            return self.items[index]
        checked_texts([text])
        places = list(self._tokenizer(text))
        return Item(text, places, [text[a:b] for a, b in places])

    @property
    def _tokenizer(self) -> Any:
        return as_tokenizer("words") if self._parser is None else self.parser._tokenizer

    def _marks(self, item: Item, labels: Sequence[Any]) -> list[Mark]:
        """Return the fields that labels of tokens spell, as characters."""
        segments = spans([str(label) for label in labels], self.scheme) if len(labels) else []
        return [(item.places[s.start][0], item.places[s.stop - 1][1], s.type) for s in segments if s.type != "O"]

    # --- rules ------------------------------------------------------------------------------------

    def rules(self, entries: Any) -> list[Rule] | None:
        """Read the rules that a question brings (those that are on); None: the model's own."""
        if entries is None:
            return None
        wrong = next((row for row in self.check(entries)["rules"] if "error" in row), None)
        if wrong is not None:
            raise RuleError(wrong["error"])
        return from_dicts([_entry(entry) for entry in entries if entry.get("on", True)])

    def acting(self, entries: Any) -> list[Rule]:
        """Return the rules of a question, the model's own where it brings none."""
        chosen = self.rules(entries)
        return chosen or [] if self._parser is None else acting_rules(self.model, chosen)

    def rules_file(self, rules: Any = None) -> dict[str, Any]:
        """Write rules as the text of a rules file."""
        return {"text": dumps(self.acting(rules))}

    def keep(self, rules: Any = None) -> dict[str, Any]:
        """Keep the rules as the page has them, wrong ones too, for when it is opened again."""
        self.check(rules)
        if not all(isinstance(entry, Mapping) for entry in rules):
            raise InputError("each rule must be an object with the key 'rule'.")
        wanted = ("name", "rule", "weight", "per", "on")
        self.kept = [{key: entry[key] for key in wanted if key in entry} for entry in rules]
        return {"kept": len(self.kept)}

    def save_rules(self, rules: Any = None) -> dict[str, Any]:
        """Put the rules that are on into the model, and write its file, if it has one."""
        saved = self.rules(rules) or []
        parser = copy.copy(self.parser)
        parser.model_ = copy.copy(getattr(self.model, "estimator_", self.model))
        parser.model_.rules = saved
        if parser.model is not None:
            parser.model = parser.model_
        if self.path is not None:
            parser.save(self.path)
        self.parser, self.kept = parser, None
        return {"rules": len(saved), "path": None if self.path is None else Path(self.path).name}

    def check(self, rules: Any = None) -> dict[str, Any]:
        """Read rules one by one: the text of each, or the error and the character where it is."""
        if not isinstance(rules, list) or len(rules) > MOST_RULES:
            raise InputError(f"rules must be a list of at most {MOST_RULES} rules.")
        return {"rules": [self._checked(entry) for entry in rules]}

    def _checked(self, entry: Any) -> dict[str, Any]:
        if not isinstance(entry, Mapping):
            return {"error": "a rule must be an object with the key 'rule'.", "at": 0}
        if not isinstance(entry.get("on", True), bool):
            return {"error": f"on must be true or false; got {entry['on']!r:.40}.", "at": 0}
        try:
            rule = from_dicts([_entry(entry)])[0]
            RuleCompiler([rule.soft(1.0) if rule.is_open else rule], self._label_set, self.scheme)
            return {"text": rule.text}
        except RulefieldError as error:
            return {"error": str(error), "at": _place(str(entry.get("rule", "")), error)}

    def effect(self, rules: Any = None, before: Any = ()) -> dict[str, Any]:
        """Count what rules change in the whole data in place of those before; fields and their F1 if gold is known."""
        acting, earlier = self.acting(rules), self.acting(list(before or ()))
        places = [i for i, item in enumerate(self.items) if item.tokens]
        if self._parser is None:
            return {"items": len(places), "changed": [], "better": 0, "worse": 0, "broken": [0] * len(acting)}
        tokens = [self.items[i].tokens for i in places]
        old, new = self._before(tokens, earlier), self._predict(tokens, acting)
        known = [k for k, i in enumerate(places) if self.items[i].gold is not None]
        gold = [self._gold(places[k]) for k in known]
        was, now = ([self._marks(self.items[places[k]], rows[k]) for k in known] for rows in (old, new))
        amounts = amounts_table(acting, tokens, new, self.scheme, self._label_set) if acting else None
        return {
            "items": len(tokens),
            "changed": [i for k, i in enumerate(places) if old[k] != new[k]],
            "better": sum(len(set(g) & set(b) - set(a)) for g, a, b in zip(gold, was, now)),
            "worse": sum(len(set(g) & set(a) - set(b)) for g, a, b in zip(gold, was, now)),
            "f1_before": text_span_f1(gold, was) if known else None,
            "f1": text_span_f1(gold, now) if known else None,
            "broken": [] if amounts is None else (amounts > 0).sum(axis=1).tolist(),
        }

    def find(self, kind: Any = "all", words: Any = "", rules: Any = None) -> dict[str, Any]:
        """Find texts that hold some words: all, open (without labels), gold, corrected, or wrong (not as the model says)."""
        if kind not in KINDS or not isinstance(words, str):
            raise InputError(f"kind must be one of {', '.join(KINDS)}, and words a string; got {kind!r:.40}.")
        found = [i for i, item in enumerate(self.items) if words.lower() in item.text.lower()]
        if kind == "wrong":
            return {"found": self._wrong(found, self.acting(rules))}
        return {"found": [i for i in found if _is_of_kind(self.items[i], kind)]}

    def _wrong(self, places: list[int], rules: list[Rule]) -> list[int]:
        """Return the texts with gold that the model labels otherwise."""
        known = [i for i in places if self.items[i].gold is not None and self.items[i].tokens]
        if self._parser is None or not known:
            return []
        answers = self._predict([self.items[i].tokens for i in known], rules)
        return [i for i, row in zip(known, answers) if set(self._marks(self.items[i], row)) != set(self._gold(i))]

    def _gold(self, index: int) -> list[Mark]:
        return self.items[index].gold or []

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

    def next(self, rules: Any = None) -> dict[str, Any]:
        """Choose the text that a person should label next, among those without corrections."""
        acting = self.acting(rules)
        open_ = [i for i, item in enumerate(self.items) if item.tokens and not item.corrected]
        open_ = [i for i in open_ if self.items[i].gold is None] or open_
        if self._parser is None or not open_:
            return {"index": open_[0] if open_ else None}
        best = suggest(self.model, [self.items[i].tokens for i in open_], 1, rules=acting)
        return {"index": open_[best[0].index]}

    # --- corrections ------------------------------------------------------------------------------

    def correct(self, index: Any = None, text: Any = None, spans: Any = None) -> dict[str, Any]:
        """Take a person's fields, [first character, after the last, label], as gold; they are saved as JSON lines."""
        item = self._item(index, text)
        if not item.text.strip():
            raise InputError("there is no text to label.")
        gold = checked_marks(item.text, spans)
        with self.lock:
            self._count(item, gold)
            item.gold, item.corrected = gold, True
            if index is None:
                index = len(self.items)
                self.items.append(item)
            record = item.record
            if self.corrections:
                with open(self.corrections, "a", encoding="utf-8") as file:
                    file.write(compact(record) + "\n")
        corrected = sum(i.corrected for i in self.items)
        if self._parser is None and corrected >= FIRST_TRAINING:
            self.retrain()
        return {"index": index, "corrected": corrected, **record}

    def _count(self, item: Item, gold: list[Mark]) -> None:
        """Refuse a correction if those of this run would take too much memory."""
        size = 1_000 + 4 * len(item.text) + 200 * len(item.tokens) + sum(200 + 4 * len(kind) for *_, kind in gold)
        if self._corrected_bytes + size > MOST_CORRECTED_BYTES:
            where = f"; those so far are in {self.corrections}" if self.corrections else ""
            most = f"{MOST_CORRECTED_BYTES // 1_000_000:,} MB"
            raise InputError(f"one run takes corrections of {most} of memory: start the server again{where}.")
        self._corrected_bytes += size

    def records(self) -> str:
        """Return all corrections as JSON lines, as the file has them."""
        return "".join(compact(item.record) + "\n" for item in list(self.items) if item.corrected)

    def retrain(self) -> dict[str, Any]:
        """Begin to train again, in the background, on all gold and corrected texts; the old model serves until then."""
        known = [item for item in self.items if item.gold is not None and item.tokens]
        if not any(item.gold for item in known):
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
        state = self.training

        def watch(record: Any) -> None:
            state.update(iteration=record.iteration, objective=round(float(record.objective), 4))

        try:
            with listening(watch):
                self.parser = self._first_parser(known) if self._parser is None else self._next_parser(known)
            state.update(state="done", seconds=round(time.time() - state["began"], 2))
        except Exception as error:  # whatever it is, the next training may begin
            state.update(state="failed", message=str(error) or type(error).__name__)

    def _first_parser(self, known: list[Item]) -> Any:
        """Train a parser on texts that were labeled by hand, and save it."""
        from rulefield.estimators.text.parser import TextParser

        parser = TextParser().fit([item.labeled for item in known])
        if self.path is not None:
            parser.save(self.path)
        for item in self.items:
            item.places = list(parser._tokenizer(item.text))
            item.tokens = [item.text[a:b] for a, b in item.places]
        return parser

    def _next_parser(self, known: list[Item]) -> Any:
        parser = copy.copy(self.parser)
        tokens, labels = zip(*(self._labeled(item) for item in known))
        parser.model_ = refitted(self.model, list(tokens), list(labels))
        return parser

    def _labeled(self, item: Item) -> tuple[list[Any], list[str]]:
        """Return the tokens of a text and their labels, split where a field begins or ends inside a token."""
        cut = item.is_cut_here
        aligned = align(item.labeled, lambda _: item.places, scheme_of(self.model), "split" if cut else "snap")
        tokens = [item.text[a:b] for a, b in aligned.places] if cut else item.tokens
        return tokens, list(aligned.labels or ())


def parse_question(body: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the texts that a question brings, within the limits, and whether it asks for probabilities."""
    text, texts, chances = (body.get(name) for name in ("text", "texts", "probabilities"))
    if text is not None and texts is not None:
        raise InputError('send either "text" or "texts".')
    if not isinstance(chances, bool | None):
        raise InputError(f"probabilities must be true or false; got {chances!r:.40}.")
    return checked_texts([text] if texts is None else texts), bool(chances)


def checked_texts(texts: Any) -> list[str]:
    """Return texts that are strings, not too many and not too long."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > MOST_TEXTS:
        raise InputError(f'send {{"text": "..."}} or {{"texts": [...]}} with at most {MOST_TEXTS:,} strings.')
    if any(len(text) > LONGEST_TEXT for text in texts):
        raise InputError(f"a text may have at most {LONGEST_TEXT:,} characters.")
    return texts


def _text_of(task: Any) -> str:
    """Return the text of a task of Label Studio."""
    data = task.get("data") if isinstance(task, dict) else None
    if isinstance(data, dict):
        text = data.get("text", next((value for value in data.values() if isinstance(value, str)), None))
        if isinstance(text, str):
            return text
    raise InputError(f'a task needs "data" with a text; got {task!r:.60}.')


def _is_of_kind(item: Item, kind: str) -> bool:
    if kind == "all":
        return True
    return item.corrected if kind == "corrected" else (item.gold is None) == (kind == "open")


def _chances(item: Item, of_tokens: Any) -> list[float]:
    """Return the probability of the label of each token that is shown: that of the model's token it lies in."""
    starts = [start for start, _ in item.places]
    return [round(float(of_tokens[np.searchsorted(starts, a, "right") - 1]), 4) for a, _ in item.shown_places]


def refitted(model: Any, X: list[Any], y: list[Any]) -> Any:
    """Return a copy of a model fitted to other data, a chain from where it stands; learned rules are kept."""
    fitted = copy.copy(model)
    if model._kind == "ruled":
        fitted.estimator_ = refitted(model.estimator_, X, y)
        return fitted
    fitted = copy.deepcopy(model)
    if model._kind == "chain":
        fitted.set_params(warm_start=True)
    return fitted.fit(X, y)


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
