"""The server under clients that are slow, many, or send more than they say, and under questions that take long."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.options import ReadOptions
from rulefield.cli.pages import app, connections, serve
from rulefield.cli.pages.app import LARGEST_BODY, Guard, make_app
from rulefield.cli.pages.connections import make_server
from rulefield.cli.pages.work_threads import WorkThreads
from rulefield.cli.pages.workbench import Workbench
from rulefield.exceptions import InputError, TimeLimitError
from rulefield.interrupts import check, seconds_left, until

JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def parser():
    X, y = rf.datasets.make_citations(30, seed=0)
    return rf.TextParser.of(rf.ChainCRF(scheme="BIO", max_iter=8).fit(X, y), "whitespace")


@contextmanager
def served(bench, **options):
    """Run a server in a thread of this process; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = make_server(make_app(bench, **options))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def connect(port):
    return closing(socket.create_connection(("127.0.0.1", port), timeout=20))


def head(method, path, more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n".encode()


def rest(connection):
    """Return all that the server still sends."""
    data = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return data


def get(port, path="/healthz"):
    """Return the status of one request."""
    with connect(port) as connection:
        connection.sendall(head("GET", path, "Connection: close\r\n"))
        return int(rest(connection).split()[1])


# --- bodies -----------------------------------------------------------------------------------------


def test_chunks_are_refused_and_nothing_after_them_is_read_as_a_request(parser):
    smuggled = b"0\r\n\r\n" + head("GET", "/about")
    with served(Workbench(parser)) as port:
        for method in ("POST", "GET"):
            for more in ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n"):
                with connect(port) as connection:
                    connection.sendall(head(method, "/parse", JSON + more) + smuggled)
                    answer = rest(connection)
                assert answer.startswith(b"HTTP/1.1 411"), answer[:80]
                assert answer.count(b"HTTP/1.1") == 1


def test_bytes_are_counted_as_they_arrive():
    taken = []

    async def run():
        async def inner(scope, receive, send):
            raise AssertionError("the application must not see it")

        async def receive():
            taken.append(1)
            return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

        async def send(message):
            sent.append(message)

        sent = []
        headers = [(b"content-type", b"application/json"), (b"content-length", b"5")]
        scope = {"type": "http", "method": "POST", "path": "/parse", "headers": headers, "query_string": b""}
        await Guard(inner, None)(scope, receive, send)
        return sent[0]

    answer = asyncio.run(run())
    assert answer["status"] == 413
    assert (b"connection", b"close") in answer["headers"]
    assert len(taken) <= LARGEST_BODY / 100_000 + 1


@pytest.mark.parametrize("path", ["/parse", "/about"])
def test_what_is_no_http_leaves_no_trace(parser, caplog, path):
    chunks = head("GET" if path == "/about" else "POST", path, JSON + "Transfer-Encoding: chunked\r\n")
    with served(Workbench(parser)) as port:
        for data in (b"\x16\x03\x01 nonsense\r\n\r\n", chunks + b"zz\r\n\r\n", head("GET", path) + b"\0\r\n\r\n"):
            with connect(port) as connection:
                connection.sendall(data)
                assert rest(connection)[:9] == b"HTTP/1.1 "
        assert get(port) == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_client_that_hangs_up_in_its_body_leaves_no_trace(parser, caplog):
    with served(Workbench(parser)) as port:
        for _ in range(3):
            with connect(port) as connection:
                connection.sendall(head("POST", "/parse", f"{JSON}Content-Length: 100\r\n") + b"{")
        assert get(port) == 200
        time.sleep(0.2)
    assert not caplog.records


# --- slow clients -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /healthz HTT",
        head("GET", "/healthz") + b"GET /hea",
        head("POST", "/parse", JSON + "Content-Length: 9\r\n"),
    ],
    ids=["nothing", "half a head", "half a second head", "no body"],
)
def test_a_client_that_stops_writing_is_closed(parser, monkeypatch, begun):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(app, "BODY_SECONDS", 0.3)
    with (
        served(Workbench(parser), token="secret" if b"POST" not in begun else None) as port,
        connect(port) as connection,
    ):
        connection.sendall(begun)
        started = time.monotonic()
        answer = rest(connection)
        assert time.monotonic() - started < 5
        assert (b"408" in answer) == (b"POST" in begun)


def test_a_client_that_takes_no_answer_is_closed(parser, monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.3)
    bench = Workbench(parser)
    monkeypatch.setattr(bench, "records", lambda: "x" * 20_000_000)
    with served(bench) as port, connect(port) as connection:
        connection.sendall(head("GET", "/corrections"))
        time.sleep(2)
        assert len(rest(connection)) < 20_000_000


def test_half_open_connections_keep_no_other_out(parser, monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 20)
    with served(Workbench(parser), token="secret") as port:
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        for connection in held:
            with suppress(OSError):
                connection.sendall(b"GET /healthz HT")
        try:
            assert [get(port) for _ in range(10)] == [200] * 10
        finally:
            for connection in held:
                connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits")
def test_descriptors_do_not_run_out_and_the_log_stays_short(tmp_path, parser):
    parser.save(tmp_path / "p.rf")
    with process(tmp_path, "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))") as (
        port,
        child,
    ):
        held = []
        for _ in range(200):
            held.append(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):
                held[-1].sendall(b"GET /healthz HT")
        assert [get(port) for _ in range(5)] == [200] * 5
        for connection in held:
            connection.close()
        assert get(port) == 200
    assert child.stderr.read().count("\n") < 5


# --- slow questions ---------------------------------------------------------------------------------


@contextmanager
def process(folder, before=""):
    """Run ``rulefield serve`` on p.rf as a process of its own; gives its port and itself."""
    code = f"{before}\nimport sys; from rulefield.cli.main import main; sys.argv[0] = 'rulefield'; main()"
    options = ["serve", "p.rf", "--port", "0", "--corrections", "c.jsonl"]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        line = child.stderr.readline()
        port = int(re.search(r"http://127.0.0.1:(\d+)/", line)[1])
        for _ in range(100):
            with suppress(OSError, IndexError):
                if get(port) == 200:
                    break
            time.sleep(0.1)
        yield port, child
    finally:
        child.kill()
        child.wait()


def post(port, path, body):
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(head("POST", path, f"{JSON}Content-Length: {len(data)}\r\nConnection: close\r\n") + data)
    return connection


def test_one_interrupt_ends_a_server_that_works(tmp_path, parser):
    parser.save(tmp_path / "p.rf")
    sleep = "Workbench.check = lambda self, rules: time.sleep(60)"
    before = f"import time; from rulefield.cli.pages.workbench import Workbench; {sleep}"
    with process(tmp_path, before) as (port, child):
        waiting = [post(port, "/rules/check", {"rules": []}) for _ in range(6)]
        time.sleep(0.5)
        assert get(port, "/about") == 200
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert child.wait(20) == 0
        assert time.monotonic() - begun < 5
        for connection in waiting:
            connection.close()


def test_what_is_quick_waits_for_no_thread(parser, monkeypatch):
    bench, go = Workbench(parser), threading.Event()
    monkeypatch.setattr(bench, "check", lambda rules: go.wait(20))
    with served(bench, workers=WorkThreads(1)) as port:
        waiting = post(port, "/rules/check", {"rules": []})
        for path in ("/", "/about", "/retrain", "/healthz", "/openapi.json", "/workbench.js"):
            begun = time.monotonic()
            assert get(port, path) == 200
            assert time.monotonic() - begun < 2
        go.set()
        waiting.close()


def test_a_thread_that_was_given_up_keeps_its_place():
    workers, running, most = WorkThreads(2), [], []

    def work():
        running.append(1)
        most.append(len(running))
        time.sleep(0.3)
        running.pop()

    async def run():
        asked = [asyncio.wait_for(workers.run(work, 10.0), 0.05) for _ in range(6)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert all(isinstance(answer, TimeoutError) for answer in asyncio.run(run()))
    assert max(most) == 2
    time.sleep(0.8)
    assert len(most) == 2  # what nothing waits for is not begun
    assert not workers.busy


def hard_rules(labels):
    counts = [r.count(a) == r.count(b) for a, b in zip(labels, labels[1:])]
    return [*counts, r.exactly(2, *(r.count(label) >= 7 for label in labels[:4]))]


def test_work_ends_when_its_time_is_over(parser):
    texts = [" ".join(f"w{i * k % 91}" for i in range(300)) for k in range(1, 9)]
    rules = hard_rules([f"B-{name}" for name in parser.labels_])
    begun = time.monotonic()
    with until(begun + 1.0), pytest.raises(TimeLimitError):
        parser.parse_json(texts * 20, rules=rules)
    assert time.monotonic() - begun < 30  # without the limit: minutes
    assert seconds_left() is None


def test_the_limit_holds_in_threads_of_the_library(parser):
    texts = [" ".join(f"w{i * k % 91}" for i in range(300)) for k in range(1, 9)]
    model = rf.load(parser.model_.to_bytes())
    model.n_jobs = 2
    begun = time.monotonic()
    with until(begun + 1.0), pytest.raises(TimeLimitError):
        model.predict([text.split() for text in texts] * 20, rules=hard_rules([f"B-{n}" for n in parser.labels_]))
    assert time.monotonic() - begun < 30  # without the limit: minutes


def test_limits_nest_and_end():
    with until(time.monotonic() + 100):
        assert seconds_left(5.0) == 5.0
        assert 99 < seconds_left(1e9) <= 100
        with until(time.monotonic() - 1), until(time.monotonic() + 50), pytest.raises(TimeLimitError):
            check()
        check()
    assert seconds_left(5.0) == 5.0


def test_a_slow_question_is_answered_503_and_its_thread_ends(parser, monkeypatch):
    monkeypatch.setattr(app, "SECONDS", 1.0)
    workers = WorkThreads(2)
    text = " ".join(f"w{i}" for i in range(300))
    rules = [{"rule": rule.text} for rule in hard_rules([f"B-{name}" for name in parser.labels_])]
    with served(Workbench(parser), workers=workers) as port:
        waiting = [post(port, "/parse", {"texts": [text] * 100, "rules": rules}) for _ in range(3)]
        assert [rest(connection).split()[1] for connection in waiting] == [b"503"] * 3
        for _ in range(600):  # a kernel that is being compiled is finished first
            if not workers.busy:
                break
            time.sleep(0.1)
        assert not workers.busy
        for connection in waiting:
            connection.close()


# --- addresses and tokens ---------------------------------------------------------------------------


def test_the_host_that_was_given_is_answered(tmp_path, parser, monkeypatch):
    made = []
    parser.save(tmp_path / "p.rf")
    monkeypatch.setattr(connections, "make_server", lambda application: made.append(application) or FakeServer())
    corrections = str(tmp_path / "c.jsonl")
    serve.serve(str(tmp_path / "p.rf"), ReadOptions(), host="127.0.0.2", port=0, corrections=corrections)
    from starlette.testclient import TestClient

    for host, status in [("127.0.0.2", 200), ("127.0.0.1", 200), ("testserver", 400), ("evil.example", 400)]:
        assert TestClient(made[0], base_url=f"http://{host}").get("/about").status_code == status


class FakeServer:
    def run(self, sockets):
        for own in sockets:
            own.close()


@pytest.mark.parametrize("token", ["schlüssel", "two words", "", "a\nb"])
def test_tokens_that_cannot_be_sent_are_refused(token):
    with pytest.raises(InputError, match="--token"):
        serve.check_token(token)
    serve.check_token("s3cret-+/=")
    serve.check_token(None)


def test_a_port_that_is_taken_is_one_sentence(tmp_path, parser):
    parser.save(tmp_path / "p.rf")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="give another --host or --port"):
            serve.serve(str(tmp_path / "p.rf"), ReadOptions(), port=port, corrections=str(tmp_path / "c"))
