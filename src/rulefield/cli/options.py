"""Options, each declared once: shared ones by name, those that belong together as dataclasses (option groups).

A command is a function with :func:`command` above it; nothing here imports what commands need for their work.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

FILES = "Files"
"""A panel of the help page."""

File = Annotated[
    str, typer.Argument(help="Columns, JSON lines or annotated texts; may be .gz; - for standard input.")
]
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


@dataclass(frozen=True)
class FileOptions:
    """How a file is read."""

    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto (by name and content), columns, jsonl, lines, or a format of texts: doccano, label-studio, xml, ...",
            rich_help_panel=FILES,
        ),
    ] = "auto"
    text: Annotated[
        str | None, typer.Option(help="Field that holds the text (Label Studio).", rich_help_panel=FILES)
    ] = None
    column: Annotated[
        str | None,
        typer.Option(
            help="Column of texts (tables, JSON lines) or of labels (CoNLL-U).",
            rich_help_panel=FILES,
        ),
    ] = None
    encoding: Annotated[str, typer.Option(help="Encoding of the files.", rich_help_panel=FILES)] = "utf-8-sig"
    apart: Annotated[
        bool,
        typer.Option(
            "--apart",
            help="XML with one element per word: keep neighbors of one label apart.",
            rich_help_panel=FILES,
        ),
    ] = False


@dataclass(frozen=True)
class ReadOptions(FileOptions):
    """How a file is read, and how its texts are cut."""

    tokenizer: Annotated[
        str,
        typer.Option(
            help="How texts are cut: auto (a parser's own; train: the best by cross-validation), words, fine, whitespace, "
            "a regular expression.",
            rich_help_panel=FILES,
        ),
    ] = "auto"


@dataclass(frozen=True)
class TrainOptions:
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
    reading: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class PredictOptions:
    """What ``predict`` is asked for, but for files."""

    rules: Rules = None
    probabilities: Annotated[bool, typer.Option(help="Add the probability of each label.")] = False
    kbest: Annotated[int, typer.Option(help="Add the k best labelings (JSON lines only).")] = 0
    on_infeasible: OnInfeasible = "mark"
    jobs: Jobs = -1
    reading: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class Scoring:
    """How ``evaluate`` counts, and what it prints."""

    scheme: Scheme = "auto"
    tokens: Annotated[bool, typer.Option(help="Also report token labels.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False


@dataclass(frozen=True)
class LearnOptions:
    """What ``rules learn`` is asked for, but for files."""

    rules: Annotated[str, typer.Option(help="Rules file, propose (by template), mine, or find (both).")] = "find"
    method: Annotated[str, typer.Option(help="soft (learned weights) or two-stage.")] = "soft"
    seed: Seed = 0
    unknown: Unknown = None
    jobs: Jobs = -1
    quiet: Quiet = False
    reading: ReadOptions = field(default_factory=ReadOptions)


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
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        annotation = hints[parameter.name]
        parameters += (
            _options_of(annotation)
            if is_dataclass(annotation)
            else [parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)]
        )
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {name: _grouped(group, given) for name, group in groups.items()}
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    """Yield an option for each field of a group, and of the groups in it."""
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if is_dataclass(hints[one.name]):
            yield from _options_of(hints[one.name])
        else:
            yield inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name]
            )


def _grouped(group: Any, given: dict[str, Any]) -> Any:
    """Return the group made of its options, which are taken out of those given."""
    hints = get_type_hints(group)
    return group(
        **{
            one.name: _grouped(hints[one.name], given) if is_dataclass(hints[one.name]) else given.pop(one.name)
            for one in fields(group)
        }
    )
