"""A spaCy component: ``nlp.add_pipe("rulefield", config={"model": "addresses.rf"})``. Needs the extra ``spacy``.

Importing this module registers the component; where rulefield is installed, spaCy finds it by itself (an entry point).
"""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import minibatch

from rulefield.encode.tokenizers import Place
from rulefield.estimators.saving import load
from rulefield.estimators.text.parse import Parse, ParsedSpan
from rulefield.estimators.text.parser import TextParser
from rulefield.exceptions import InputError

FILE = "model.rf"


def _attribute(owner: Any, name: str, default: Any) -> None:
    if not owner.has_extension(name):
        owner.set_extension(name, default=default)


for _name, _default in (("probability", None), ("broken", ()), ("status", None), ("dropped", ())):
    _attribute(Doc, _name, _default)
_attribute(Span, "probability", None)


ASSIGNS = ["doc.ents", "span._.probability", "doc._.probability", "doc._.broken", "doc._.status", "doc._.dropped"]


@Language.factory("rulefield", assigns=ASSIGNS)
def make_component(
    nlp: Language, name: str, model: str | None = None, keep_ents: bool = False
) -> "RulefieldComponent":
    """Make the component of a pipeline, and open its model, unless a saved pipeline is being opened, which brings its own."""
    component = RulefieldComponent(model, keep_ents=keep_ents)
    if model is not None and name not in nlp._meta.get("pipeline", ()):
        _ = component.parser
    return component


class RulefieldComponent:
    """Sets entities, their probabilities and the rules that are broken.

    ``doc.ents`` are the spans; ``span._.probability`` is that of a span as a whole, ``doc._.probability`` of the whole
    labeling; ``doc._.broken`` lists dicts with the ``rule``, the ``amount`` and its ``cost``; ``doc._.status`` is
    ``"optimal"`` where the answer is proved. Spans of a parser are widened to spaCy's tokens; if two of them meet in one
    token, the more probable one is an entity, and ``doc._.dropped`` lists the other, with a warning.

    Parameters
    ----------
    model : path, or a fitted TextParser, ChainCRF, RuledCRF or SegmentCRF
        A parser cuts texts by its own tokenizer, and spans are widened to spaCy's tokens; other models label spaCy's tokens.
    keep_ents : bool
        Take entities that are set already (by an EntityRuler, say) as known: they stay, and the model labels the rest
        around them.
    """

    def __init__(self, model: Any = None, *, keep_ents: bool = False):
        self.model, self.keep_ents = model, keep_ents
        self._places: dict[str, list[Place]] = {}
        self._parser: TextParser | None = None

    @property
    def parser(self) -> TextParser:
        """The model as a parser of texts."""
        if self._parser is None:
            if self.model is None:
                raise InputError('the component "rulefield" has no model; add it with config={"model": "path.rf"}.')
            self._set(load(self.model) if isinstance(self.model, (str, Path)) else self.model)
        assert self._parser is not None
        return self._parser

    def _set(self, model: Any) -> None:
        self.model = model
        self._parser = model if isinstance(model, TextParser) else TextParser.of(model, self._tokenized)

    def _tokenized(self, text: str) -> list[Place]:
        """Return spaCy's tokens of a text of the present batch."""
        return self._places[text]

    def __call__(self, doc: Doc) -> Doc:
        """Label one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Label documents, a batch at a time."""
        for batch in minibatch(stream, batch_size):
            docs = list(batch)
            self._places = {doc.text: _token_places(doc) for doc in docs}
            known = [_known(doc) for doc in docs] if self.keep_ents else None
            for doc, parse in zip(docs, self.parser.parse_all([doc.text for doc in docs], known=known)):
                _annotate(doc, parse)
                yield doc

    # --- spaCy's ways to save a pipeline ----------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model's file."""
        _ = self.parser  # opened, if it was not yet
        return bytes(self.model.to_bytes())

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "RulefieldComponent":
        """Undo :meth:`to_bytes`."""
        self._set(load(data))
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model into the folder of the pipeline."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "RulefieldComponent":
        """Undo :meth:`to_disk`."""
        return self.from_bytes((Path(path) / FILE).read_bytes())


def _token_places(doc: Doc) -> list[Place]:
    return [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]


def _known(doc: Doc) -> list[tuple[int, int, str]] | None:
    return [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents] or None


def _annotate(doc: Doc, parse: Parse) -> None:
    kept, dropped = _apart([_widened(doc, span) for span in parse.spans])
    doc.set_ents(kept, default="outside")
    doc._.probability, doc._.status = parse.probability, parse.status
    doc._.broken = [{"rule": str(b.rule), "amount": float(b.amount), "cost": float(b.cost)} for b in parse.broken]
    doc._.dropped = [{"label": s.label, "text": s.text, "probability": s.probability} for s, _ in dropped]
    for span, entity in dropped:
        warnings.warn(
            f"{span.label} {span.text!r} and {entity.label_} {entity.text!r} meet in one of spaCy's tokens; the more "
            f"probable one is kept. A tokenizer that cuts finer keeps both.",
            UserWarning,
            stacklevel=4,
        )


def _widened(doc: Doc, span: ParsedSpan) -> tuple[ParsedSpan, Span]:
    entity: Any = doc.char_span(span.start, span.end, label=span.label, alignment_mode="expand")
    entity._.probability = span.probability
    return span, entity


def _apart(pairs: list[tuple[ParsedSpan, Span]]) -> tuple[list[Span], list[tuple[ParsedSpan, Span]]]:
    """Return the spans that share no token, the more probable of those that do, and each other one with what it met."""
    kept: list[Span] = []
    dropped = []
    for span, entity in sorted(pairs, key=lambda pair: (-(pair[0].probability or 0.0), pair[0].start)):
        met = next((other for other in kept if entity.start < other.end and other.start < entity.end), None)
        if met is None:
            kept.append(entity)
        else:
            dropped.append((span, met))
    return kept, dropped
