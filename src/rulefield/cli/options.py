"""Options, each declared once: shared ones by name, those that belong together as dataclasses (option groups).

A command is a function with :func:`command` above it; nothing here imports what commands need for their work.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

ModelFile = Annotated[str, typer.Argument(help="Model file, as written by train.")]
Output = Annotated[str, typer.Option("--output", "-o", help="File to write; standard output by default.")]
Rules = Annotated[str | None, typer.Option(help="Rules file, in place of the model's own; none: no rules.")]
Scheme = Annotated[str, typer.Option(help="auto, none, BIO, IOB1, BIOES, BILOU, IOE1 or IOE2.")]
Unknown = Annotated[str | None, typer.Option(help="Label that means: not annotated.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
OnInfeasible = Annotated[
    str,
    typer.Option(
        help="What happens if nothing obeys the hard rules: raise (stop), relax (break them as little as possible), mark.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 for one per core.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


def _of_files(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Files")


@dataclass(frozen=True)
class FileOptions:
    """How a file is read."""

    form: Annotated[
        str,
        _of_files(
            "auto (by name and content), columns, jsonl, lines, or a format of texts: doccano, label-studio, xml, ...",
            "--format",
        ),
    ] = "auto"
    text: Annotated[str | None, _of_files("Field that holds the text (Label Studio).")] = None
    column: Annotated[str | None, _of_files("Column of texts (tables, JSON lines) or of labels (CoNLL-U).")] = None
    encoding: Annotated[str, _of_files("Encoding of the files.")] = "utf-8-sig"
    apart: Annotated[
        bool, _of_files("XML with one element per word: keep neighbors of one label apart.", "--apart")
    ] = False


@dataclass(frozen=True)
class ReadOptions(FileOptions):
    """How a file is read, and how its texts are cut."""

    tokenizer: Annotated[
        str,
        _of_files(
            "How texts are cut: auto (a parser's own; train: the best by cross-validation), words, fine, whitespace, "
            "a regular expression."
        ),
    ] = "auto"


@dataclass(frozen=True)
class TrainOptions(ReadOptions):
    """What ``train`` is asked for, but for files."""

    scheme: Scheme = "auto"
    l1: Annotated[str, typer.Option(help="L1 penalty, or auto: by held-out likelihood.")] = "auto"
    l2: Annotated[str, typer.Option(help="L2 penalty (twice CRFsuite's c2), or auto.")] = "auto"
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None
    min_count: Annotated[int, typer.Option(help="Least count of a feature with a label.")] = 1
    rules: Annotated[
        str | None, typer.Option(help="Rules file, kept in the model; learn: find rules and their weights.")
    ] = None
    unknown: Unknown = None
    tasks: Annotated[
        str | None, typer.Option(help="Several label columns, counted from 0 (the word): ner=3,pos=1; _ is unknown.")
    ] = None
    expect: Annotated[str | None, typer.Option(help="Expectations file (YAML): what should hold on average.")] = None
    initial_label: Annotated[
        str | None, typer.Option(help="Label that unknown tokens are taken to have at the start, such as O.")
    ] = None
    segments: Annotated[bool, typer.Option("--segments", help="Label whole segments (SegmentCRF).")] = False
    on_cut: Annotated[str, typer.Option(help="Where a span cuts a token: split, snap (widen the span) or raise.")] = (
        "split"
    )
    seed: Seed = 0
    jobs: Jobs = -1
    quiet: Quiet = False


@dataclass(frozen=True)
class PredictOptions(ReadOptions):
    """What ``predict`` is asked for, but for files."""

    rules: Rules = None
    probabilities: Annotated[bool, typer.Option(help="Add the probability of each label.")] = False
    kbest: Annotated[int, typer.Option(help="Add the k best labelings (JSON lines only).")] = 0
    on_infeasible: OnInfeasible = "mark"
    jobs: Jobs = -1


@dataclass(frozen=True)
class LearnOptions(ReadOptions):
    """What ``rules learn`` is asked for, but for files."""

    rules: Annotated[str, typer.Option(help="Rules file, propose (by template), mine, or find (both).")] = "find"
    method: Annotated[str, typer.Option(help="soft (learned weights) or two-stage.")] = "soft"
    seed: Seed = 0
    unknown: Unknown = None
    jobs: Jobs = -1
    quiet: Quiet = False


Function = TypeVar("Function", bound=Callable[..., None])
COMMANDS: dict[str, Any] = {}
"""The commands of the modules that are imported."""


def command(name: str, *examples: str, group: typer.Typer | None = None) -> Callable[[Function], Function]:
    """Declare a command, of a group of commands if one is given; the function itself stays as it is.

    Each field of its parameters that are option groups is an option of its own.
    """
    epilog = f"[b]{'Example' if len(examples) == 1 else 'Examples'}[/b]: {'   |   '.join(examples)}"

    def declare(function: Function) -> Function:
        app = typer.Typer(rich_markup_mode="rich", add_completion=False) if group is None else group
        app.command(name, epilog=epilog)(_with_options(function))
        if group is None:
            COMMANDS[name] = typer.main.get_command(app)
        return function

    return declare


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as ``typer`` takes it: without option groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        options = inspect.signature(groups[name]).parameters.values() if name in groups else [parameter]
        parameters += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        options = {
            name: group(**{one.name: values.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        command(**values, **options)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
