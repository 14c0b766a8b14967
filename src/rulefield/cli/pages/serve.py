"""``rulefield serve``."""

import gc
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from rulefield.cli.corpus import protect_inputs
from rulefield.cli.options import ModelFile, ReadOptions, command
from rulefield.cli.pages.report import open_labeler
from rulefield.cli.reading import as_parser
from rulefield.cli.show import console
from rulefield.exceptions import InputError
from rulefield.outputs import check_output

SWITCH_SECONDS = 0.0005
"""How long a thread may keep Python to itself while others wait: a quick answer passes through three threads."""
MISSING = "serving needs Starlette and uvicorn; install them with: pip install 'rulefield[serve]'."


@command(
    "serve",
    "rulefield serve citations.rf --data dev.conll",
    "rulefield serve new.rf --data texts.csv --labels number,street,city,zip   (no model yet)",
)
def serve(
    model: ModelFile,
    reading: ReadOptions,
    data: Annotated[
        str | None, typer.Option(help="Texts or sequences to walk through, with gold labels or without.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address; any but this machine's own needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.")] = 8000,
    token: Annotated[str | None, typer.Option(help="What clients must send (Authorization: Bearer TOKEN).")] = None,
    corrections: Annotated[
        str, typer.Option(help="JSON lines to which corrections are added.")
    ] = "corrections.jsonl",
    labels: Annotated[
        str | None,
        typer.Option(help="Names of labels, city,street,zip: begin without a model, which is then written."),
    ] = None,
) -> None:
    """Open the workbench: a page on this machine with a text, its labels and the rules, and a JSON API."""
    try:
        from rulefield.cli.pages.app import LOOPBACK, make_app
        from rulefield.cli.pages.connections import make_server
        from rulefield.cli.pages.work_threads import WorkThreads
    except ImportError:
        raise InputError(MISSING) from None
    name = f"[{host}]" if ":" in host else host
    hosts = [*LOOPBACK, name] if is_loopback(host) else ["*"]
    if hosts == ["*"] and not token:
        raise InputError(f"--host {host} can be reached from elsewhere: give a --token that clients must send.")
    check_token(token)
    protect_inputs(corrections, [model, *([data] if data else [])])
    bench = open_workbench(model, data, corrections, reading, label_names(labels))
    listener = _listen(host, port)
    url = f"http://{name}:{listener.getsockname()[1]}/"
    console(to_error=True).print(
        f"{len(bench.items)} texts; open {url} (Ctrl-C ends; corrections go to {corrections})."
    )
    gc.collect()
    gc.freeze()  # what is there now stays: no search for garbage goes through it again
    logging.getLogger("rulefield.serve").info("serving %s on %s", model, url)
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(KeyboardInterrupt):
        make_server(make_app(bench, token=token, hosts=hosts)).run([listener])
    if WorkThreads.busy or bench.training["state"] == "training":  # threads that a library of theirs would wait for
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def check_token(token: str | None) -> None:
    """Refuse a token that cannot stand in a header as it is."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        raise InputError(
            "--token must be ASCII letters, digits and signs without spaces: clients write others differently."
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error).rstrip(".")
        raise InputError(f"cannot listen on {host} port {port}: {reason}; give another --host or --port.") from None


def label_names(labels: str | None) -> list[str]:
    """Return the names in ``city,street,zip``."""
    return [name.strip() for name in (labels or "").split(",") if name.strip()]


def open_workbench(
    model: str,
    data: str | None,
    corrections: str | None,
    reading: ReadOptions | None = None,
    labels: Sequence[str] = (),
) -> Any:
    """Make a workbench of a model file and a data file; without a model, of label names, to begin from nothing."""
    from rulefield.cli.pages.items import items_of
    from rulefield.cli.pages.workbench import Workbench

    reading = reading or ReadOptions()
    parser = None
    if labels and not Path(model).exists():
        check_output(model)
    else:
        parser = as_parser(open_labeler(model, 1), reading.tokenizer)
    return Workbench(parser, items_of(parser, data, reading) if data else [], corrections, model, data, labels)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
