"""The calls of the server, each a method of the workbench; what they take; the OpenAPI document of all."""

from inspect import Parameter, getdoc, signature
from typing import Any

import rulefield
from rulefield.cli.pages.workbench import KINDS, LONGEST_TEXT, MOST_RULES, MOST_TEXTS, Workbench
from rulefield.exceptions import InputError

Schema = dict[str, Any]

POSTS = {
    "/parse": "parse",
    "/rules/check": "check",
    "/rules/file": "rules_file",
    "/rules/keep": "keep",
    "/rules/save": "save_rules",
    "/find": "find",
    "/view": "view",
    "/effect": "effect",
    "/next": "next",
    "/correct": "correct",
    "/retrain": "retrain",
    "/predict": "predict_tasks",
    "/setup": "setup",
}
"""The method of the workbench that answers a question; the names in its body are the method's parameters."""

GETS = {
    "/": ("The workbench.", "text/html"),
    "/workbench.js": ("Its script.", "text/javascript"),
    "/workbench.css": ("Its style.", "text/css"),
    "/openapi.json": ("This document.", "application/json"),
    "/healthz": ("Whether the server runs.", "application/json"),
    "/health": ("Label Studio: whether the server runs.", "application/json"),
    "/about": ("Labels, rules, size of the data.", "application/json"),
    "/retrain": ("How far training is.", "application/json"),
    "/model": ("The model file.", "application/octet-stream"),
    "/corrections": ("All corrections as JSON lines.", "application/octet-stream"),
}

_TEXT: Schema = {"type": "string", "maxLength": LONGEST_TEXT}
_RULE_PARTS: Schema = {
    "rule": {"type": "string"},
    "name": {"type": "string"},
    "weight": {"type": ["number", "string", "null"], "description": 'A number, or "hard".'},
    "per": {"type": "string"},
    "on": {"type": "boolean", "default": True},
}
_RULES: Schema = {
    "type": "array",
    "maxItems": MOST_RULES,
    "items": {"type": "object", "properties": _RULE_PARTS},
    "description": "In place of the model's own.",
}
_NAMES: dict[str, Schema] = {
    "text": _TEXT,
    "texts": {"type": "array", "maxItems": MOST_TEXTS, "items": _TEXT},
    "index": {"type": "integer", "minimum": 0, "description": "Number of a text of the data."},
    "rules": _RULES,
    "before": _RULES,
    "spans": {"type": "array", "description": "Lists of: first character, the one after the last, label."},
    "kind": {"enum": list(KINDS)},
    "words": {"type": "string"},
    "probabilities": {"type": "boolean"},
    "tasks": {"type": "array", "maxItems": MOST_TEXTS, "description": 'Objects with "data" that holds a text.'},
}
"""What a question may hold, by name."""

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


def body_of(path: str) -> Schema:
    """Return the schema of a question."""
    parameters = list(signature(getattr(Workbench, POSTS[path])).parameters.values())[1:]
    names = {p.name: _NAMES[p.name] for p in parameters if p.kind is not Parameter.VAR_KEYWORD}
    return {"type": "object", "properties": names, "additionalProperties": len(names) < len(parameters)}


def check_names(path: str, body: dict[str, Any]) -> None:
    """Refuse what a question does not know: a name that is misspelled would be left out in silence."""
    schema = body_of(path)
    unknown = next((name for name in body if name not in schema["properties"]), None)
    if unknown is not None and not schema["additionalProperties"]:
        known = ", ".join(schema["properties"]) or "nothing"
        raise InputError(f"{path} does not know {unknown!r:.40}; it takes {known}.")


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    failures = {status: _response(why, "application/json", error) for status, why in _FAILURES.items()}
    paths: dict[str, dict[str, Any]] = {}
    for path, (summary, kind) in GETS.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": _response("The answer.", kind, {})}}}
    for path, method in POSTS.items():
        answer = _response("The answer.", "application/json", {"type": "object"})
        paths.setdefault(path, {})["post"] = {
            "summary": str(getdoc(getattr(Workbench, method))).split("\n")[0],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body_of(path)}}},
            "responses": {"200": answer, **failures},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "rulefield", "version": rulefield.__version__},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
        "paths": paths,
    }


def _response(description: str, kind: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}
