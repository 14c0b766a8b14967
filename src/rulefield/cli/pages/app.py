"""The workbench's web server: one page, a JSON API, and the calls of Label Studio's ML backends (Starlette)."""

import asyncio
import hmac
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import rulefield
from rulefield.cli.pages.batching import Batches
from rulefield.cli.pages.workbench import LONGEST_TEXT, MOST_TEXTS, Workbench
from rulefield.data.limits import is_whole
from rulefield.encode.formats.label_studio import _as_task
from rulefield.exceptions import InputError, RulefieldError
from rulefield.report.marks import render
from rulefield.rules.text import dumps

LARGEST_BODY = 2_000_000
SECONDS = 60.0
AT_ONCE = max(2, os.cpu_count() or 1) + 2
"""Questions that are worked on at once; more threads than cores would only take turns."""
POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:"
OPEN = ("/healthz", "/health", "/", "/workbench.js", "/workbench.css")
"""Paths that tell nothing: they need no token."""

Answer = Callable[[Workbench, dict[str, Any]], Any]
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(bench: Workbench, *, token: str | None = None, hosts: list[str] | None = None) -> Starlette:
    """Make the application.

    Parameters
    ----------
    bench : Workbench
    token : str, optional
        What clients must send as ``Authorization: Bearer TOKEN``; None: nothing (loopback only).
    hosts : list of str, optional
        Names that the ``Host`` of a request may have: other web sites cannot reach a local server under a name of theirs.
    """
    limiter = CapacityLimiter(AT_ONCE)
    allowed = hosts or ["localhost", "127.0.0.1", "[::1]", "testserver"]
    routes = [
        Route("/", lambda request: _page(bench), methods=["GET"]),
        Route("/workbench.js", lambda request: _file("workbench.js", "text/javascript"), methods=["GET"]),
        Route("/workbench.css", lambda request: _file("workbench.css", "text/css"), methods=["GET"]),
        Route("/healthz", lambda request: JSONResponse({"status": "ok"}), methods=["GET"]),
        Route("/health", lambda request: JSONResponse({"status": "UP", "model_class": "rulefield"}), methods=["GET"]),
        Route("/openapi.json", lambda request: JSONResponse(openapi()), methods=["GET"]),
        Route("/about", _asked(bench, limiter, lambda b, _: b.about()), methods=["GET"]),
        Route("/retrain", _asked(bench, limiter, lambda b, _: b.training), methods=["GET"]),
        Route("/model", _download(bench, lambda b: b.parser.to_bytes(), "model.rf"), methods=["GET"]),
        Route(
            "/corrections",
            _download(bench, lambda b: b.records().encode(), "corrections.jsonl"),
            methods=["GET"],
        ),
        Route("/parse", _parsing(bench, limiter), methods=["POST"]),
        *(Route(path, _asked(bench, limiter, answer), methods=["POST"]) for path, (answer, _) in POSTS.items()),
    ]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=allowed)] if "*" not in allowed else []
    app = Starlette(routes=routes, middleware=guards)
    app.add_middleware(Guard, token=token)
    return app


class Guard:
    """Middleware: a token where one is asked for, a limit on bodies, JSON only, headers that forbid what is not needed."""

    def __init__(self, app: Any, token: str | None):
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._refusal(request)
        if refused is not None:
            await refused(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (b"content-security-policy", POLICY.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        await self.app(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        if self.token is not None and request.url.path not in OPEN:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return _sentence("this server needs its token: Authorization: Bearer TOKEN.", 401)
        if request.method == "POST":
            if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
                return _sentence("send JSON: Content-Type: application/json.", 415)
            length = request.headers.get("content-length", "")
            if not is_whole(length):
                return _sentence("send the length of the body (Content-Length).", 411)
            if int(length) > LARGEST_BODY:
                return _sentence(f"the body must have at most {LARGEST_BODY:,} bytes; got {int(length):,}.", 413)
        return None


class _Json(JSONResponse):
    """JSON of any string: half of a surrogate pair, which UTF-8 cannot hold, is written as JSON's own escape."""

    def render(self, content: Any) -> bytes:
        made = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return made.encode("utf-8", "backslashreplace")


def _sentence(text: str, status: int) -> JSONResponse:
    return _Json({"error": text}, status_code=status)


def _asked(bench: Workbench, limiter: CapacityLimiter, answer: Answer) -> Endpoint:
    """Answer a question in a thread, its JSON included."""

    def work(body: dict[str, Any]) -> Awaitable[Response]:
        return to_thread.run_sync(lambda: _Json(answer(bench, body)), abandon_on_cancel=True, limiter=limiter)

    return _answering(work)


def _answering(work: Callable[[dict[str, Any]], Awaitable[Response]]) -> Endpoint:
    """Read a question, and answer it within the time limit; mistakes of the client are one sentence."""

    async def endpoint(request: Request) -> Response:
        body: Any = {}
        if request.method == "POST":
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError) as error:
                return _sentence(f"the body is not JSON ({error}).", 400)
            if not isinstance(body, dict):
                return _sentence("the body must be a JSON object.", 400)
        try:
            return await asyncio.wait_for(work(body), SECONDS)
        except RulefieldError as error:
            return _sentence(str(error), 422)
        except TimeoutError:
            return _sentence(f"no answer within {SECONDS:.0f} s; send fewer texts or fewer rules.", 503)

    return endpoint


def _download(
    bench: Workbench, content: Callable[[Workbench], bytes], name: str
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            data = await run_in_threadpool(content, bench)
        except RulefieldError as error:
            return _sentence(str(error), 422)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    return endpoint


def _page(bench: Workbench) -> Response:
    return Response(render("workbench.html", version=rulefield.__version__), media_type="text/html")


def _file(name: str, kind: str) -> Response:
    marks = render("marks.css") if name.endswith(".css") else ""
    return PlainTextResponse(marks + render(name), media_type=kind)


# --- questions --------------------------------------------------------------------------------------


def _parsing(bench: Workbench, limiter: CapacityLimiter) -> Endpoint:
    """Parse texts; questions that bring no rules of their own are answered together."""
    # one thread: two would only wait for each other's Python, and what waits meanwhile is answered together
    batches = Batches(
        lambda texts, chances: bench.parser.parse_json(texts, probabilities=chances), CapacityLimiter(1)
    )

    async def work(body: dict[str, Any]) -> Response:
        texts, chances = _texts(body), bool(body.get("probabilities", False))
        if body.get("rules") is None:
            made = await batches.ask(texts, chances)
        else:
            made = await to_thread.run_sync(
                lambda: bench.parser.parse_json(texts, rules=bench.rules(body["rules"]), probabilities=chances),
                abandon_on_cancel=True,
                limiter=limiter,
            )
        return Response('{"parses":[' + ",".join(made) + "]}", media_type="application/json")

    return _answering(work)


def _texts(body: dict[str, Any]) -> list[str]:
    texts = body.get("texts", [body["text"]] if "text" in body else None)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > MOST_TEXTS:
        raise InputError(f'send {{"text": "..."}} or {{"texts": [...]}} with at most {MOST_TEXTS:,} strings.')
    if any(len(text) > LONGEST_TEXT for text in texts):
        raise InputError(f"a text may have at most {LONGEST_TEXT:,} characters.")
    return texts


def check_rules(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Read rules one by one: their text, or the error and its place."""
    return {"rules": bench.check(body.get("rules"))}


def view(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """One text for the page."""
    index = body.get("index")
    if index is not None and type(index) is not int:
        raise InputError(f"index must be a whole number; got {index!r:.40}.")
    return bench.view(index, body.get("text"), bench.acting(body.get("rules")))


def effect(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Count what rules change in the whole data."""
    return bench.effect(bench.acting(body.get("rules")), bench.acting(body.get("before", [])))


def rules_file(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Rules as the text of a rules file."""
    return {"text": dumps(bench.acting(body.get("rules")))}


def next_text(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Choose the text that a person should label next."""
    return {"index": bench.next(bench.acting(body.get("rules")))}


def correct(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Take a person's labels."""
    return bench.correct(body.get("index"), body.get("text"), body.get("spans"))


def predict_tasks(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Label Studio: predictions for its tasks."""
    tasks = body.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > MOST_TEXTS:
        raise InputError(f"tasks must be a list of at most {MOST_TEXTS:,} tasks.")
    texts = [_text_of(task) for task in tasks]
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


def setup(bench: Workbench, body: dict[str, Any]) -> dict[str, Any]:
    """Label Studio: the model's version."""
    return {"model_version": "rulefield"}


POSTS: dict[str, tuple[Answer, str]] = {
    "/rules/check": (check_rules, "rules"),
    "/rules/file": (rules_file, "rules"),
    "/view": (view, "index or text; rules"),
    "/effect": (effect, "rules, before"),
    "/next": (next_text, "rules"),
    "/correct": (correct, "index or text; spans: [first token, after the last, type]"),
    "/retrain": (lambda bench, body: bench.retrain(), "nothing"),
    "/predict": (predict_tasks, "tasks of Label Studio"),
    "/setup": (setup, "anything"),
}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the calls."""
    said = {"200": {"description": "the answer"}, "422": {"description": "one sentence about what is wrong"}}
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    asked = {
        path: (answer.__doc__ or "Train again in the background.", keys) for path, (answer, keys) in POSTS.items()
    }
    asked["/parse"] = ("Parse texts.", "text or texts; rules, probabilities (optional)")
    posts = {
        path: {
            "post": {
                "summary": summary.strip(),
                "description": f"The body is an object with: {keys}.",
                "requestBody": body,
                "responses": said,
            }
        }
        for path, (summary, keys) in asked.items()
    }
    gets = {"/healthz": "Whether it runs.", "/about": "Labels, rules, size of the data.", "/model": "The model file."}
    for path, summary in gets.items():
        posts[path] = {"get": {"summary": summary, "responses": {"200": {"description": "the answer"}}}}
    return {"openapi": "3.1.0", "info": {"title": "rulefield", "version": rulefield.__version__}, "paths": posts}
