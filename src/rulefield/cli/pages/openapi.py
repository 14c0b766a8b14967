"""The OpenAPI document of the server's calls."""

from typing import Any

import rulefield
from rulefield.cli.pages.workbench import ALTERNATIVES, LONGEST_TEXT, MOST_RULES, MOST_TEXTS

Schema = dict[str, Any]

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

POSTS: dict[str, tuple[str, Schema, Schema]] = {
    "/parse": (
        "Parse texts.",
        _question(
            text=_TEXT, texts=_list(_TEXT, maxItems=MOST_TEXTS), rules=_RULES, probabilities={"type": "boolean"}
        ),
        _object(parses=_list(_ANY)),
    ),
    "/rules/check": (
        "Read rules one by one: their text, or the error and its place.",
        _question(rules=_RULES),
        _object(rules=_list(_object(text={"type": "string"}, error={"type": "string"}, at={"type": "integer"}))),
    ),
    "/rules/file": (
        "Write rules as the text of a rules file.",
        _question(rules=_RULES),
        _object(text={"type": "string"}),
    ),
    "/rules/keep": (
        "Keep rules for when the page is opened again.",
        _question(rules=_RULES),
        _object(kept={"type": "integer"}),
    ),
    "/rules/save": (
        "Put rules into the model and write its file.",
        _question(rules=_RULES),
        _object(rules={"type": "integer"}, path={"type": ["string", "null"]}),
    ),
    "/find": (
        "Find texts: all, open (without labels), gold, corrected, or wrong (not as the model labels them).",
        _question(kind={"type": "string"}, words={"type": "string"}, rules=_RULES),
        _object(found=_list(_INDEX)),
    ),
    "/view": (
        f"Label one text with and without rules, with up to {ALTERNATIVES} alternatives.",
        _question(index=_INDEX, text=_TEXT, rules=_RULES),
        _object(text=_TEXT, spans=_SPANS, plain=_SPANS, probability={"type": "number"}),
    ),
    "/effect": (
        "Count what rules change in the whole data.",
        _question(rules=_RULES, before=_RULES),
        _object(
            items={"type": "integer"},
            changed=_list(_INDEX),
            better={"type": "integer"},
            worse={"type": "integer"},
            broken=_list({"type": "integer"}),
        ),
    ),
    "/next": (
        "Choose the text that a person should label next.",
        _question(rules=_RULES),
        _object(index={**_INDEX, "type": ["integer", "null"]}),
    ),
    "/correct": (
        "Take a person's labels.",
        _question(index=_INDEX, text=_TEXT, spans=_SPANS),
        _object(index=_INDEX, corrected={"type": "integer"}, text=_TEXT, label=_SPANS),
    ),
    "/retrain": ("Train again in the background.", _question(), _STATE),
    "/predict": (
        "Label Studio: predictions for its tasks.",
        _object(tasks=_list(_TASK, maxItems=MOST_TEXTS)),
        _object(results=_list(_ANY)),
    ),
    "/setup": ("Label Studio: the model's version.", _ANY, _object(model_version={"type": "string"})),
}
"""What each question is, its body, and its answer."""

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
    for path, (summary, body, schema) in POSTS.items():
        asked = {"required": True, "content": {"application/json": {"schema": body}}}
        responses = {"200": _answer("application/json", schema), **failures}
        paths.setdefault(path, {})["post"] = {"summary": summary, "requestBody": asked, "responses": responses}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rulefield", "version": rulefield.__version__},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
        "paths": paths,
    }


def _answer(kind: str, schema: Schema) -> dict[str, Any]:
    return {"description": "The answer.", "content": {kind: {"schema": schema}}}
