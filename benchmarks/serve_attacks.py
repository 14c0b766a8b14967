"""The server under attack: what good clients notice, and what is left of memory, log and Ctrl-C.

The server is ``rulefield serve`` in a process of its own, on the loopback address, with 128 descriptors. Good clients ask
all the time; first alone, then beside another process with 200 half-open connections, 6 questions of slow rules, and 54
clients that send garbage, chunks, bodies that are too large or never end, requests that are cut off, wrong types, foreign
hosts and long heads, or that take no answer. All of it is bounded in number and time: less than a minute in all.

    python benchmarks/serve_attacks.py [--seconds 20] [--clients 40]

The last line is JSON: ``good_median_ratio`` (median time of a good answer under attack, over that without), ``failed``
(good questions without an answer), ``growth_mb`` (memory after the attack), ``log_mb``, ``stop_s`` (Ctrl-C while slow
questions are at work).
"""

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from serve_load import make_model, resident

DESCRIPTORS = 128
HALF_OPEN, HOSTILE, SLOW = 200, 54, 6
PAUSE_SECONDS = 0.1
JSON_HEAD = "Content-Type: application/json\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def head(method: str, path: str, more: str = "", host: str = "127.0.0.1") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return head("POST", path, f"{JSON_HEAD}Content-Length: {len(data)}\r\n") + data


async def answered(stream: Stream, request: bytes) -> int:
    """Send a request on an open connection; return the status of its answer."""
    reader, writer = stream
    writer.write(request)
    await writer.drain()
    told = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next(int(row.split(":")[1]) for row in told.split("\r\n") if row.lower().startswith("content-length"))
    await reader.readexactly(length)
    return int(told.split()[1])


# --- good clients -----------------------------------------------------------------------------------


async def good(port: int, questions: list[bytes], until: float, times: list[float]) -> int:
    """Ask until the time is over; return how often there was no answer, after a second try on a new connection."""
    stream: Stream | None = None
    failed = 0
    while time.perf_counter() < until:
        begun = time.perf_counter()
        for _ in range(2):
            try:
                stream = stream or await asyncio.open_connection("127.0.0.1", port)
                status = await asyncio.wait_for(answered(stream, random.choice(questions)), 30)
                break
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                status, stream = 0, None
        times.append(time.perf_counter() - begun)
        failed += status != 200
        await asyncio.sleep(PAUSE_SECONDS * random.uniform(0.5, 1.5))
    return failed


async def good_load(port: int, questions: list[bytes], clients: int, seconds: float) -> tuple[float, int, int]:
    """Return the median time of an answer, the number of questions, and of those that failed."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    failed = await asyncio.gather(*(good(port, questions, until, times) for _ in range(clients)))
    return statistics.median(times), len(times), sum(failed)


# --- hostile clients --------------------------------------------------------------------------------


def slow_question() -> bytes:
    """Rules that tie all labels together, on 100 long texts."""
    names = ["box", "building", "city", "number", "state", "street", "unit", "zip"]
    rules = [f"count('{a}') == count('{b}')" for a, b in zip(names, names[1:])]
    rules.append("exactly(2, " + ", ".join(f"count('{name}') >= 7" for name in names) + ")")
    text = " ".join(f"word{i * i % 97}" for i in range(300))
    return post("/parse", {"texts": [text] * 100, "rules": [{"rule": rule} for rule in rules]})


ATTACKS = [
    b"\x16\x03\x01\x02\x00 nonsense \r\n\r\n",
    head("POST", "/parse", JSON_HEAD + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")
    + b"ffff\r\n"
    + b"x" * 70_000,
    head("POST", "/parse", JSON_HEAD + "Content-Length: 3000000\r\n") + b"x" * 100_000,
    head("POST", "/parse", JSON_HEAD + "Content-Length: 100\r\n") + b'{"text":',
    post("/correct", {"index": [1], "spans": {}}),
    post("/parse", {"texts": [[[[]]]] * 1000}),
    head("POST", "/parse", JSON_HEAD + "Content-Length: 200000\r\n") + b"[" * 200_000,
    head("GET", "/about", host="evil.example"),
    head("GET", "/about", "X: " + "y" * 60_000 + "\r\n"),
    head("GET", "/model"),
    head("GET", "/healthz", "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
]


async def hostile(port: int, k: int, until: float) -> None:
    """Send one attack after the other; hang up at once, after a while, or never take the answer."""
    while time.perf_counter() < until:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ATTACKS[k % len(ATTACKS)])
            await asyncio.sleep(random.choice([0.0, 0.3, 1.0]))
            writer.transport.abort()
        k += 7
        await asyncio.sleep(random.uniform(0.2, 1.0))


async def half_open(port: int, until: float) -> None:
    """Hold a connection with half a head; open another when it is closed."""
    while time.perf_counter() < until:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHo")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), max(0.1, until - time.perf_counter()))
            writer.transport.abort()
        await asyncio.sleep(random.uniform(0.5, 1.5))


async def slow(port: int, until: float) -> None:
    """Ask a slow question, and wait for its answer."""
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        stream = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait_for(answered(stream, slow_question()), until - time.perf_counter())


async def attack(port: int, seconds: float) -> None:
    until = time.perf_counter() + seconds
    tasks = [slow(port, until) for _ in range(SLOW)]
    tasks += [half_open(port, until) for _ in range(HALF_OPEN)]
    tasks += [hostile(port, k, until) for k in range(HOSTILE)]
    await asyncio.gather(*tasks)


# --- the server -------------------------------------------------------------------------------------


def start(path: str, folder: str, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server; return it and its port."""
    command = [sys.executable, "-m", "rulefield", "serve", path, "--port", "0"]
    server = subprocess.Popen(
        [*command, "--corrections", f"{folder}/corrections.jsonl"],
        stderr=log.open("wb"),
        env={**os.environ, "COLUMNS": "200"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
    )
    for _ in range(600):
        told = log.read_text()
        if "http://127.0.0.1:" in told:
            return server, int(told.split("http://127.0.0.1:")[1].split("/")[0])
        time.sleep(0.05)
    raise SystemExit("the server did not start")


async def warm_up(port: int, questions: list[bytes], clients: int) -> None:
    """Load the kernels that questions need, those of rules included."""
    stream = await asyncio.open_connection("127.0.0.1", port)
    body = json.loads(slow_question().split(b"\r\n\r\n", 1)[1])
    body["texts"] = [body["texts"][0][:60]]
    await answered(stream, post("/parse", body))
    await good_load(port, questions, clients, 3.0)


def measure(server: subprocess.Popen[bytes], port: int, questions: list[bytes], clients: int, seconds: float) -> dict:
    asyncio.run(warm_up(port, questions, clients))
    alone, n, failed = asyncio.run(good_load(port, questions, clients, seconds / 3))
    before = resident(server.pid)
    attackers = subprocess.Popen([sys.executable, __file__, "--attack", str(port), "--seconds", str(seconds)])
    time.sleep(1.0)
    attacked, m, lost = asyncio.run(good_load(port, questions, clients, seconds - 2.0))
    attackers.wait(seconds + 10)
    asyncio.run(good_load(port, questions, clients, 2.0))
    growth = resident(server.pid) - before
    print(f"alone: {n} answers, median {1e3 * alone:.1f} ms; attacked: {m}, median {1e3 * attacked:.1f} ms")
    return {"good_median_ratio": round(attacked / alone, 2), "failed": failed + lost, "growth_mb": round(growth, 1)}


async def hold_slow(port: int) -> list[Stream]:
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SLOW)]
    for _, writer in streams:
        writer.write(slow_question())
        await writer.drain()
    await asyncio.sleep(1.0)
    return streams


def stop(server: subprocess.Popen[bytes], port: int) -> float:
    """Seconds from Ctrl-C to the end, while slow questions are at work."""

    async def run() -> float:
        streams = await hold_slow(port)
        begun = time.perf_counter()
        server.send_signal(signal.SIGINT)
        await asyncio.to_thread(server.wait, 30)
        del streams
        return time.perf_counter() - begun

    return asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--attack", type=int, help="only attack this port of 127.0.0.1")
    options = parser.parse_args()
    random.seed(0)
    seconds = min(options.seconds, 20.0)
    if options.attack is not None:
        asyncio.run(attack(options.attack, seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        path, texts = make_model(folder)
        questions = [post("/parse", {"texts": texts[k : k + 10]}) for k in range(0, 400, 10)]
        log = Path(folder) / "log"
        server, port = start(path, folder, log)
        try:
            record = measure(server, port, questions, options.clients, seconds)
            record["stop_s"] = round(stop(server, port), 2)
        finally:
            server.kill()
            server.wait()
        record["log_mb"] = round(log.stat().st_size / 1e6, 4)
        print(log.read_text()[:2000])
    print(json.dumps(record))


if __name__ == "__main__":
    main()
