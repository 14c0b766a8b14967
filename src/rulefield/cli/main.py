"""The command line. A command is declared beside its work; its module is imported when it is called."""

import _thread
import atexit
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from rulefield.cli.options import COMMANDS
from rulefield.exceptions import RulefieldError

INTERRUPT_DELAY_SECONDS = 0.1


class Place(NamedTuple):
    """Where a command is declared, and its line on the help page."""

    module: str
    help: str


PLACES = {
    "train": Place("training", "Learn a model from labeled sequences, or a parser from annotated texts."),
    "predict": Place("prediction", "Label new sequences or texts, and write them back as they came."),
    "evaluate": Place("evaluation", "Score predictions: spans of texts; segments, tokens and whole sequences."),
    "report": Place("pages.report", "Write one page about a model: scores, errors, calibration, rules, hard cases."),
    "next": Place("pages.next", "Choose what to label next, with the model's labels and their probabilities."),
    "serve": Place(
        "pages.serve", "Open the workbench: a page with a text, its labels and the rules; and a JSON API."
    ),
    "inspect": Place("inspection", "Show what a model holds, or why it labels something as it does."),
    "parse": Place("texts.parsing", "Cut texts into fields, with probabilities and broken rules."),
    "convert": Place("texts.converting", "Rewrite annotated texts in another format."),
    "prove": Place("prove", "Label sequences and write proofs that no labeling is better."),
    "verify": Place("prove", "Check proof files and say what each proves and what must still be trusted."),
    "warm-up": Place("texts.warm_up", "Compile what training, parsing and serving need, and keep it."),
    "demo": Place("demo", "Make up data, train, and show labeled output, scores, and what rules change."),
    "rules": Place("rules", "Find, learn and check rules."),
}
"""The commands, in the order of the help page."""


class LazyCommands(Mapping[str, Any]):
    """The commands by name; the module of each is imported when it is asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)

    def __getitem__(self, name: str) -> Any:
        import_module(f"rulefield.cli.{PLACES[name].module}")
        return COMMANDS[name]


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.commands = LazyCommands()  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page, which needs one line of each command and no module."""
        self.commands = {name: TyperCommand(name, help=place.help) for name, place in PLACES.items()}
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = LazyCommands()  # type: ignore[assignment]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import rulefield

        typer.echo(f"rulefield {rulefield.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Label sequences with conditional random fields that follow your rules."""


def main() -> None:
    """Run the command line; mistakes in the input end with one sentence and exit code 2."""
    # Importing makes many objects and no garbage: a tenth of the start-up went into looking for it.
    gc.set_threshold(100_000)
    warnings.showwarning = _show_warning
    _check_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # arguments may hold any bytes
    signal.signal(signal.SIGTERM, _end)  # so that a file that is being written is cleaned up
    sys.unraisablehook = _raise_again
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the work is done: there is nothing to interrupt
    try:
        app()
    except RulefieldError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename!r}." if error.filename else str(error))


def _check_streams() -> None:
    """Refuse to work without standard output: the next file that is opened would take its place."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # it stays open
    if sys.stdout is None:
        _fail("standard output is closed; send it to a file, or to /dev/null.")


def _raise_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that came where Python can raise nothing, as in a finalizer; otherwise it would be lost."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(
            _interrupt_later, ()
        )  # threading.Thread.start would wait, perhaps until the interrupt
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_later() -> None:
    time.sleep(INTERRUPT_DELAY_SECONDS)  # at once, the main thread would still be in the hook
    _thread.interrupt_main()


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


_OPTIONS_OF_PARAMETERS = {
    "use on_infeasible='relax'": "use --on-infeasible relax",
    'use on_infeasible="relax"': "use --on-infeasible relax",
    "scheme=None": "--scheme none",
    "written by save()": "written by rulefield train",
    "leave cv='prefit' out: the chain is then fitted on folds": "give other data, or use rulefield train --rules learn",
}
"""What the library's sentences call a parameter, and what it is here."""


def with_options(message: object) -> str:
    """Return a sentence of the library in the words of the command line."""
    sentence = str(message)
    for parameter, option in _OPTIONS_OF_PARAMETERS.items():
        sentence = sentence.replace(parameter, option)
    return sentence


def _fail(sentence: str) -> None:
    sys.stderr.write(f"rulefield: {with_options(sentence)}\n")
    sys.exit(2)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"rulefield: {with_options(message)}\n")


if __name__ == "__main__":
    main()
