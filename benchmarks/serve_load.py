"""The server under load: 200 clients at once, errors, memory, and throughput against the library's own.

The server is ``rulefield serve`` in a process of its own, on the loopback address. Clients are tasks of this process that
keep a connection open and ask again as soon as they are answered, 1 to 50 texts per question; every answer is compared
with the first one to the same question. Then the clients ask for 50 texts per question, and the texts per second are set
beside ``parse_all`` of 1,000 texts with two threads in another process. The CPU seconds of both are printed too, and
those of the clients, which have to share the machine with the server.

    python benchmarks/serve_load.py [--clients 200] [--seconds 60] [--port 8766]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rulefield as rf

BATCH, MODEL_SIZE, TEXTS = 50, 300, 1000

LIBRARY = """
import json, sys, time
import rulefield as rf
parser, texts = rf.load(sys.argv[1]), json.load(open(sys.argv[2]))
parser.model_.n_jobs = 2
batches = [texts[k : k + 1000] for k in range(0, len(texts), 1000)]
done = 0
for batch in batches:
    parser.parse_all(batch, probabilities=False)
begun, worked = time.perf_counter(), time.process_time()
while time.perf_counter() < begun + float(sys.argv[3]):
    for batch in batches:
        parser.parse_all(batch, probabilities=False)
        done += len(batch)
print(done / (time.perf_counter() - begun), done / (time.process_time() - worked))
"""


def make_model(folder: str) -> tuple[str, list[str]]:
    """Train a parser of generated addresses; return its file, and other addresses as texts."""
    X, y = rf.datasets.make_addresses(MODEL_SIZE + TEXTS, seed=0)
    crf = rf.ChainCRF(scheme="BIO").fit(X[:MODEL_SIZE], y[:MODEL_SIZE])
    path = f"{folder}/addresses.rf"
    rf.TextParser.of(crf, "whitespace").save(path)
    return path, [" ".join(tokens) for tokens in X[MODEL_SIZE:]]


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds now."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024


def cpu_seconds(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    """Send one question on an open connection; return status and answer. HTTP by hand: the client must cost little."""
    head = f"POST /parse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(row.split(":")[1] for row in answer.split("\r\n") if row.lower().startswith("content-length"))
    return int(answer.split()[1]), await reader.readexactly(int(length))


async def client(
    port: int, bodies: list[bytes], first: int, until: float, tally: dict[str, int], said: dict[bytes, bytes]
) -> None:
    """Ask until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    k = first
    while time.perf_counter() < until:
        body = bodies[k % len(bodies)]
        try:
            status, answer = await ask(reader, writer, body)
        except (OSError, asyncio.IncompleteReadError):
            status, answer = 0, b""
        tally["answered" if status == 200 and said.setdefault(body, answer) == answer else "failed"] += 1
        if status == 0:
            return
        k += 1
    writer.close()


async def load(port: int, bodies: list[bytes], clients: int, seconds: float) -> dict[str, int]:
    """Return how many questions were answered and how many failed: an error, or another answer than before."""
    tally = {"answered": 0, "failed": 0}
    until, said = time.perf_counter() + seconds, {}
    await asyncio.gather(*(client(port, bodies, k, until, tally, said) for k in range(clients)))
    return tally


def asked(texts: list[str], size: int) -> list[bytes]:
    """Bodies of questions with ``size`` texts each."""
    return [json.dumps({"texts": texts[k : k + size]}).encode() for k in range(0, len(texts), size)]


def wait_for(port: int) -> None:
    """Return when the server answers."""
    for _ in range(600):
        try:
            asyncio.run(load(port, asked(["a"], 1), 1, 0.01))
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def measure(pid: int, port: int, texts: list[str], clients: int, seconds: float) -> dict[str, float]:
    """Warm up, load for ``seconds``, then measure throughput with 50 texts per question."""
    mixed = asked(texts[:200], 1) + asked(texts, BATCH)
    warm = asyncio.run(load(port, mixed, clients, max(3.0, seconds / 4)))
    before = resident(pid)
    tally = asyncio.run(load(port, mixed, clients, seconds))
    growth = resident(pid) - before
    begun, worked, own = time.perf_counter(), cpu_seconds(pid), time.process_time()
    batches = asyncio.run(load(port, asked(texts, BATCH), clients, max(3.0, seconds / 4)))
    done = BATCH * batches["answered"]
    failed = warm["failed"] + tally["failed"] + batches["failed"]
    return {
        "answered": tally["answered"],
        "failed": failed,
        "growth_mb": round(growth, 1),
        "texts_per_second": done / (time.perf_counter() - begun),
        "texts_per_cpu_second": done / (cpu_seconds(pid) - worked),
        "client_cpu": (time.process_time() - own) / (time.perf_counter() - begun),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=8766)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, texts = make_model(folder)
        command = [sys.executable, "-m", "rulefield", "serve", path, "--port", str(options.port)]
        server = subprocess.Popen(
            [*command, "--corrections", f"{folder}/corrections.jsonl"], stderr=subprocess.DEVNULL
        )
        try:
            wait_for(options.port)
            record = measure(server.pid, options.port, texts, options.clients, options.seconds)
        finally:
            server.terminate()
            server.wait()
        Path(f"{folder}/texts.json").write_text(json.dumps(texts))
        run = [sys.executable, "-c", LIBRARY, path, f"{folder}/texts.json", str(max(3.0, options.seconds / 4))]
        told = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    rate, per_cpu = map(float, told.split())
    served, served_per_cpu, share = (
        record.pop(k) for k in ("texts_per_second", "texts_per_cpu_second", "client_cpu")
    )
    record["throughput_ratio"] = round(served / rate, 3)
    record["cpu_ratio"] = round(served_per_cpu / per_cpu, 3)
    print(
        f"{options.clients} clients for {options.seconds:.0f} s: {record['answered']} answers, {record['failed']} failures, "
        f"memory {record['growth_mb']:+.1f} MB; {BATCH} texts per question: {record['throughput_ratio']:.2f} of the "
        f"library's own throughput with two threads ({served:,.0f} and {rate:,.0f} per second; {served_per_cpu:,.0f} and "
        f"{per_cpu:,.0f} per CPU second; the clients took {share:.2f} cores)"
    )
    print(json.dumps(record))


if __name__ == "__main__":
    main()
