"""``rulefield serve``."""

import gc
import ipaddress
import logging
from typing import Any

from rulefield.cli.corpus import protect_inputs
from rulefield.cli.pages.report import open_labeler
from rulefield.cli.show import console
from rulefield.exceptions import InputError

MISSING = "serving needs Starlette and uvicorn; install them with: pip install 'rulefield[serve]'."


def run_serve(
    model: str, data: str | None, host: str, port: int, token: str | None, tokenizer: str, corrections: str, form: str
) -> None:
    """Open the model and the data, and serve until Ctrl-C."""
    try:
        import uvicorn

        from rulefield.cli.pages.app import make_app
    except ImportError:
        raise InputError(MISSING) from None
    hosts = None if is_loopback(host) else ["*"]
    if hosts and not token:
        raise InputError(f"--host {host} can be reached from elsewhere: give a --token that clients must send.")
    protect_inputs(corrections, [model, *([data] if data else [])])
    bench = open_workbench(model, data, tokenizer, corrections, form)
    url = f"http://{host}:{port}/"
    console(to_error=True).print(
        f"{len(bench.items)} texts; open {url} (Ctrl-C ends; corrections go to {corrections})."
    )
    gc.collect()
    gc.freeze()  # what is there now stays: no search for garbage goes through it again
    logging.getLogger("rulefield.serve").info("serving %s on %s", model, url)
    uvicorn.run(make_app(bench, token=token, hosts=hosts), host=host, port=port, log_level="warning")


def open_workbench(model: str, data: str | None, tokenizer: str, corrections: str | None, form: str = "auto") -> Any:
    """Make a workbench of a model file and a data file."""
    from rulefield.cli.pages.workbench import Workbench, items_of
    from rulefield.estimators.text.parser import TextParser

    found = open_labeler(model, 1)
    parser = found if found._kind == "text" else TextParser.of(found, tokenizer)
    return Workbench(parser, items_of(parser, data, form) if data else [], corrections)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
