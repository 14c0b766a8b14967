"""The calls of the server: what each is, its body, its answer, and what gives it; and the OpenAPI document of all."""

from collections.abc import Callable
from typing import Any, NamedTuple

import rulefield
from rulefield.cli.pages.workbench import ALTERNATIVES, LONGEST_TEXT, MOST_RULES, MOST_TEXTS, Workbench
from rulefield.encode.formats.label_studio import _as_task
from rulefield.exceptions import InputError
from rulefield.rules.text import dumps

Schema = dict[str, Any]
Body = dict[str, Any]

_TEXT: Schema = {"type": "string", "maxLength": LONGEST_TEXT}
_INDEX: Schema = {"type": "integer", "minimum": 0, "description": "Number of a text of the data."}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _question(**properties: Schema) -> Schema:
    """Return the schema of a body that may hold nothing else."""
    return {**_object(**properties), "additionalProperties": False}


_RULE = _object(
    rule={"type": "string"},
    name={"type": "string"},
    weight={"type": ["number", "string", "null"], "description": 'A number, or "hard".'},
    per={"type": "string"},
    on={"type": "boolean", "default": True},
)
_RULES = _list(_RULE, maxItems=MOST_RULES, description="In place of the model's own.")
_SPANS = _list(
    _list({"type": ["integer", "string"]}, minItems=3, maxItems=3), description="[first token, after the last, type]"
)
_TASK = _object(id={"type": "integer"}, data={"type": "object", "description": "Holds a text."})
_STATE = _object(
    state={"enum": ["idle", "training", "done", "failed"]},
    message={"type": "string"},
    texts={"type": "integer"},
    began={"type": "number"},
    seconds={"type": "number"},
    iteration={"type": "integer"},
    objective={"type": "number"},
)
_FILE: Schema = {"type": "string", "format": "binary"}
_ANY: Schema = {"type": "object"}


class Post(NamedTuple):
    """A question: what it is, the schemas of its body and its answer, and what answers it (None: the application)."""

    summary: str
    body: Schema
    reply: Schema
    answer: Callable[[Workbench, Body], Any] | None = None


# --- bodies -----------------------------------------------------------------------------------------


def texts_of(body: Body) -> list[str]:
    """Return the texts that a question brings, within the limits."""
    texts = body.get("texts", [body["text"]] if "text" in body else None)
    if {"text", "texts"} <= body.keys():
        raise InputError('send either "text" or "texts".')
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > MOST_TEXTS:
        raise InputError(f'send {{"text": "..."}} or {{"texts": [...]}} with at most {MOST_TEXTS:,} strings.')
    if any(len(text) > LONGEST_TEXT for text in texts):
        raise InputError(f"a text may have at most {LONGEST_TEXT:,} characters.")
    return texts


def _index(body: Body) -> int | None:
    index = body.get("index")
    if index is not None and type(index) is not int:
        raise InputError(f"index must be a whole number; got {index!r:.40}.")
    return index


def _acting(bench: Workbench, body: Body) -> Any:
    return bench.acting(body.get("rules"))


def check_names(path: str, body: Body) -> None:
    """Refuse what a question does not know: a name that is misspelled would be left out in silence."""
    schema = POSTS[path].body if body else {}
    unknown = [name for name in body if name not in schema["properties"]] if "properties" in schema else []
    if unknown and not schema.get("additionalProperties", True):
        known = ", ".join(schema["properties"]) or "nothing"
        raise InputError(f"{path} does not know {unknown[0]!r:.40}; it takes {known}.")


# --- Label Studio -----------------------------------------------------------------------------------


def predict_tasks(bench: Workbench, body: Body) -> Body:
    """Return predictions for Label Studio's tasks."""
    tasks = body.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > MOST_TEXTS:
        raise InputError(f"tasks must be a list of at most {MOST_TEXTS:,} tasks.")
    texts = texts_of({"texts": [_text_of(task) for task in tasks]})
    parses = bench.parser.parse_all(texts, probabilities=True)
    empty = {"model_version": "rulefield", "score": 0.0, "result": []}
    return {"results": [(_as_task(found.document).get("predictions") or [empty])[0] for found in parses]}


def _text_of(task: Any) -> str:
    data = task.get("data") if isinstance(task, dict) else None
    strings = [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
    text = data.get("text", strings[0] if strings else None) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise InputError(f'a task needs "data" with a text; got {task!r:.60}.')
    return text


# --- all calls --------------------------------------------------------------------------------------

POSTS: dict[str, Post] = {
    "/parse": Post(
        "Parse texts.",
        _question(
            text=_TEXT, texts=_list(_TEXT, maxItems=MOST_TEXTS), rules=_RULES, probabilities={"type": "boolean"}
        ),
        _object(parses=_list(_ANY)),
    ),
    "/rules/check": Post(
        "Read rules one by one: their text, or the error and its place.",
        _question(rules=_RULES),
        _object(rules=_list(_object(text={"type": "string"}, error={"type": "string"}, at={"type": "integer"}))),
        lambda bench, body: {"rules": bench.check(body.get("rules"))},
    ),
    "/rules/file": Post(
        "Write rules as the text of a rules file.",
        _question(rules=_RULES),
        _object(text={"type": "string"}),
        lambda bench, body: {"text": dumps(_acting(bench, body))},
    ),
    "/rules/keep": Post(
        "Keep rules for when the page is opened again.",
        _question(rules=_RULES),
        _object(kept={"type": "integer"}),
        lambda bench, body: bench.keep(body.get("rules")),
    ),
    "/rules/save": Post(
        "Put rules into the model and write its file.",
        _question(rules=_RULES),
        _object(rules={"type": "integer"}, path={"type": ["string", "null"]}),
        lambda bench, body: bench.save_rules(body.get("rules")),
    ),
    "/find": Post(
        "Find texts: all, open (without labels), gold, corrected, or wrong (not as the model labels them).",
        _question(kind={"type": "string"}, words={"type": "string"}, rules=_RULES),
        _object(found=_list(_INDEX)),
        lambda bench, body: {
            "found": bench.find(body.get("kind", "all"), body.get("words", ""), _acting(bench, body))
        },
    ),
    "/view": Post(
        f"Label one text with and without rules, with up to {ALTERNATIVES} alternatives.",
        _question(index=_INDEX, text=_TEXT, rules=_RULES),
        _object(text=_TEXT, spans=_SPANS, plain=_SPANS, probability={"type": "number"}),
        lambda bench, body: bench.view(_index(body), body.get("text"), _acting(bench, body)),
    ),
    "/effect": Post(
        "Count what rules change in the whole data.",
        _question(rules=_RULES, before=_RULES),
        _object(
            items={"type": "integer"},
            changed=_list(_INDEX),
            better={"type": "integer"},
            worse={"type": "integer"},
            broken=_list({"type": "integer"}),
        ),
        lambda bench, body: bench.effect(_acting(bench, body), bench.acting(body.get("before", []))),
    ),
    "/next": Post(
        "Choose the text that a person should label next.",
        _question(rules=_RULES),
        _object(index={**_INDEX, "type": ["integer", "null"]}),
        lambda bench, body: {"index": bench.next(_acting(bench, body))},
    ),
    "/correct": Post(
        "Take a person's labels.",
        _question(index=_INDEX, text=_TEXT, spans=_SPANS),
        _object(index=_INDEX, corrected={"type": "integer"}, text=_TEXT, label=_SPANS),
        lambda bench, body: bench.correct(_index(body), body.get("text"), body.get("spans")),
    ),
    "/retrain": Post("Train again in the background.", _question(), _STATE, lambda bench, body: bench.retrain()),
    "/predict": Post(
        "Label Studio: predictions for its tasks.",
        _object(tasks=_list(_TASK, maxItems=MOST_TEXTS)),
        _object(results=_list(_ANY)),
        predict_tasks,
    ),
    "/setup": Post(
        "Label Studio: the model's version.",
        _ANY,
        _object(model_version={"type": "string"}),
        lambda bench, body: {"model_version": "rulefield"},
    ),
}

GETS: dict[str, tuple[str, str, Schema]] = {
    "/": ("The workbench.", "text/html", {"type": "string"}),
    "/workbench.js": ("Its script.", "text/javascript", {"type": "string"}),
    "/workbench.css": ("Its style.", "text/css", {"type": "string"}),
    "/openapi.json": ("This document.", "application/json", _ANY),
    "/healthz": ("Whether the server runs.", "application/json", _object(status={"type": "string"})),
    "/health": ("Label Studio: whether the server runs.", "application/json", _object(status={"type": "string"})),
    "/about": ("Labels, rules, size of the data.", "application/json", _ANY),
    "/retrain": ("How far training is.", "application/json", _STATE),
    "/model": ("The model file.", "application/octet-stream", _FILE),
    "/corrections": ("All corrections as JSON lines.", "application/octet-stream", _FILE),
}

_ERROR = {"content": {"application/json": {"schema": _object(error={"type": "string"})}}}
_FAILURES = {
    "400": "The body is no JSON object of finite numbers, or the host is not this server's.",
    "401": "The token is missing or wrong.",
    "408": "The body did not arrive in time.",
    "411": "The length of the body is missing.",
    "413": "The body is too large.",
    "415": "The body is not called JSON.",
    "422": "What is wrong with the question, in one sentence.",
    "503": "There is no answer within the time limit.",
}


def document() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for path, (summary, kind, schema) in GETS.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": _answer(kind, schema)}}}
    failures = {status: {"description": why, **_ERROR} for status, why in _FAILURES.items()}
    for path, post in POSTS.items():
        asked = {"required": True, "content": {"application/json": {"schema": post.body}}}
        responses = {"200": _answer("application/json", post.reply), **failures}
        paths.setdefault(path, {})["post"] = {"summary": post.summary, "requestBody": asked, "responses": responses}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rulefield", "version": rulefield.__version__},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
        "paths": paths,
    }


def _answer(kind: str, schema: Schema) -> dict[str, Any]:
    return {"description": "The answer.", "content": {kind: {"schema": schema}}}
