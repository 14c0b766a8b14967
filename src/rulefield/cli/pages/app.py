"""The workbench's web server: one page, a JSON API, and the calls of Label Studio's ML backends (Starlette)."""

import asyncio
import hmac
import json
import math
import os
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import rulefield
from rulefield.cli.pages.calls import POSTS, check_names, document
from rulefield.cli.pages.work_threads import Batches, WorkThreads
from rulefield.cli.pages.workbench import Workbench, parse_question
from rulefield.data.limits import is_whole
from rulefield.exceptions import RulefieldError, TimeLimitError
from rulefield.report.marks import render

LARGEST_BODY = 2_000_000
BODY_SECONDS = 20.0
SECONDS = 60.0
WORK_SHARE = 0.8
"""Part of the time that work gets: the search for a labeling then ends early enough that the best one found is sent."""
AT_ONCE = max(2, os.cpu_count() or 1)
"""Questions that are worked on at once, beside those that are answered together; more threads would only take turns."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
OPEN = ("/healthz", "/health", "/", "/workbench.js", "/workbench.css")
"""Paths that tell nothing: they need no token."""

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(
    bench: Workbench, *, token: str | None = None, hosts: list[str] | None = None, workers: WorkThreads | None = None
) -> Starlette:
    """Make the application; clients must send the ``token``, if there is one, as ``Authorization: Bearer TOKEN``.

    ``hosts`` are the names that the ``Host`` of a request may have (None: those of this machine itself), so that other web
    sites cannot reach a local server under a name of theirs. ``workers`` answer what takes time.
    """
    threads = workers or WorkThreads(AT_ONCE)
    quick: dict[str, Callable[[], Response]] = {
        "/": lambda: Response(render("workbench.html", version=rulefield.__version__), media_type="text/html"),
        "/workbench.js": lambda: PlainTextResponse(render("workbench.js"), media_type="text/javascript"),
        "/workbench.css": lambda: PlainTextResponse(
            render("marks.css") + render("workbench.css"), media_type="text/css"
        ),
        "/healthz": lambda: _Json({"status": "ok"}),
        "/health": lambda: _Json({"status": "UP", "model_class": "rulefield"}),
        "/openapi.json": lambda: _Json(document()),
        "/about": lambda: _Json(bench.about()),
        "/retrain": lambda: _Json(bench.training),
    }
    posts = {path: _asked(bench, threads, method) for path, method in POSTS.items()}
    posts["/parse"] = _parsing(bench, threads)
    downloads = {
        "/model": _download(threads, lambda: bench.parser.to_bytes(), "model.rf"),
        "/corrections": _download(threads, lambda: bench.records().encode(), "corrections.jsonl"),
    }
    routes = [Route(path, _quick(answer), methods=["GET"]) for path, answer in quick.items()]
    routes += [Route(path, endpoint, methods=["GET"]) for path, endpoint in downloads.items()]
    routes += [Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()]
    allowed = hosts or list(LOOPBACK)
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=allowed)] if "*" not in allowed else []
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token), *guards])


class _RefusedError(Exception):
    """What a client sent is not read."""

    def __init__(self, sentence: str, status: int):
        super().__init__(sentence)
        self.status = status


class Guard:
    """Middleware: a token where one is asked for, a limit on bodies, JSON only, headers that forbid what is not needed."""

    def __init__(self, app: Any, token: str | None):
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or pass it on with its body in the scope."""

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += HEADERS
            await send(message)

        try:
            request = Request(scope, receive)
            self._check(request)
            scope["body"] = await asyncio.wait_for(_whole_body(request), BODY_SECONDS)
        except _RefusedError as error:  # the rest of what was sent is not read as a request
            await _sentence(str(error), error.status, {"Connection": "close"})(scope, receive, guarded)
        except TimeoutError:
            message = f"the body of a request must arrive within {BODY_SECONDS:.0f} s."
            await _sentence(message, 408, {"Connection": "close"})(scope, receive, guarded)
        except ClientDisconnect:
            pass
        else:
            await self.app(scope, receive, guarded)

    def _check(self, request: Request) -> None:
        if self.token is not None and request.url.path not in OPEN:
            sent = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(sent.encode(), self.token.encode()):
                raise _RefusedError("this server needs its token: Authorization: Bearer TOKEN.", 401)
        if "transfer-encoding" in request.headers:
            raise _RefusedError("send the body in one piece, with its length (Content-Length), not in chunks.", 411)
        length = request.headers.get("content-length")
        if request.method == "POST":
            kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
            if kind != "application/json":
                raise _RefusedError("send JSON: Content-Type: application/json.", 415)
            if length is None or not is_whole(length):
                raise _RefusedError("send the length of the body (Content-Length).", 411)
        if length is not None and is_whole(length) and int(length) > LARGEST_BODY:
            raise _RefusedError(f"the body must have at most {LARGEST_BODY:,} bytes; got {int(length):,}.", 413)


async def _whole_body(request: Request) -> bytes:
    """Read a body; what arrives is counted, whatever its head says."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise _RefusedError(f"the body must have at most {LARGEST_BODY:,} bytes.", 413)
    return bytes(body)


class _Json(JSONResponse):
    """JSON of any string: half of a surrogate pair, which UTF-8 cannot hold, is written as JSON's own escape."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def _sentence(text: str, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return _Json({"error": text}, status_code=status, headers=headers)


def _quick(answer: Callable[[], Response]) -> Endpoint:
    """Answer at once, without a thread: what cannot take long does not wait for what does."""

    async def endpoint(request: Request) -> Response:
        return answer()

    return endpoint


def _asked(bench: Workbench, workers: WorkThreads, method: str) -> Endpoint:
    """Answer a question in a thread, its JSON included."""

    def work(body: dict[str, Any]) -> Awaitable[Response]:
        return workers.run(lambda: _Json(getattr(bench, method)(**body)), WORK_SHARE * SECONDS)

    return _answering(work)


def _answering(work: Callable[[dict[str, Any]], Awaitable[Response]]) -> Endpoint:
    """Read a question, and answer it within the time limit; mistakes of the client are one sentence."""

    async def endpoint(request: Request) -> Response:
        try:
            body = _question(request.scope["body"]) if request.method == "POST" else {}
        except (ValueError, RecursionError) as error:
            return _sentence(f"the body is not a JSON object of finite numbers ({error}).", 400)
        try:
            if body:
                check_names(request.url.path, body)
            return await asyncio.wait_for(work(body), SECONDS)
        except (TimeoutError, TimeLimitError):
            return _sentence(f"no answer within {SECONDS:.0f} s; send fewer texts or fewer rules.", 503)
        except RulefieldError as error:
            return _sentence(str(error), 422)

    return endpoint


def _question(data: bytes) -> dict[str, Any]:
    """Read the JSON object of a question; raises ValueError if it is none."""
    body = json.loads(data, parse_constant=_finite, parse_float=_finite)
    if not isinstance(body, dict):
        raise ValueError(f"got a {type(body).__name__}")
    return body


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"got {text:.20}")
    return number


def _download(workers: WorkThreads, content: Callable[[], bytes], name: str) -> Endpoint:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}

    async def work(_: dict[str, Any]) -> Response:
        data = await workers.run(content, WORK_SHARE * SECONDS)
        return Response(data, media_type="application/octet-stream", headers=headers)

    return _answering(work)


def _parsing(bench: Workbench, workers: WorkThreads) -> Endpoint:
    """Parse texts; questions that bring no rules of their own are answered together."""
    batches = Batches(
        lambda texts, chances: bench.parser.parse_json(texts, probabilities=chances), WORK_SHARE * SECONDS
    )

    async def work(body: dict[str, Any]) -> Response:
        if body.get("rules") is None:
            parses = await batches.ask(*parse_question(body))
        else:
            parses = await workers.run(lambda: bench.parse(**body), WORK_SHARE * SECONDS)
        return Response('{"parses":[' + ",".join(parses) + "]}", media_type="application/json")

    return _answering(work)
