"""``rulefield train --tasks``: one model for several columns of labels."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from rulefield.cli.corpus import FileContents, counted, protect_inputs
from rulefield.cli.tasks import Tasks, labeled_rows, parse_tasks, read_tasks
from rulefield.cli.training import (
    LEARN,
    TrainOptions,
    choose_features,
    choose_scheme,
    expectation_line,
    progress,
    say,
)
from rulefield.exceptions import InputError

ITERATIONS = 30


def run_joint_train(files: Sequence[str], model: str, dev: str | None, options: TrainOptions, quiet: bool) -> None:
    """Read, train, save, say what came out and which expectations bind."""
    check_options(options)
    protect_inputs(
        model, [*files, *(name for name in (dev, options.template, options.rules, options.expect) if name)]
    )
    tasks = parse_tasks(options.tasks)
    corpora = [read_tasks(name, options.form, tasks, options.unknown) for name in files]
    held_out = read_tasks(dev, options.form, tasks, options.unknown) if dev else None
    tokens = [sequence for corpus in corpora for sequence in corpus.tokens]
    labels = [row for corpus in corpora for row in corpus.labels or []]
    crf = make_joint(tokens, labels, tasks, options, quiet)
    begun = perf_counter()
    crf.fit(tokens, labels)
    crf.save(model)
    if quiet:
        return
    sizes = ", ".join(f"{task} {counted(len(own), 'label')}" for task, own in crf.classes_.items())
    say(
        f"{counted(len(tokens), 'sequence')}, {sizes}, {counted(crf.theta_.size, 'weight')}, "
        f"{counted(crf.n_iter_, 'iteration')}, "
        f"{perf_counter() - begun:.1f} s; saved to {model}"
    )
    for report in crf.expectations_:
        say(expectation_line(report))
    if held_out:
        say(f"{dev}: {_dev_line(crf, held_out)}")


def check_options(options: TrainOptions) -> None:
    """Refuse options that a joint model does not have."""
    default = TrainOptions()
    if options.rules == LEARN:
        raise InputError("--rules learn is for chains, but --tasks trains a joint model; give a rules file.")
    for name in ("solver", "l1", "early_stopping", "initial_label"):
        if getattr(options, name) != getattr(default, name):
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is for chains, but --tasks trains a joint model; leave one of them out.")


def make_joint(tokens: list[Any], labels: list[Any], tasks: Tasks, options: TrainOptions, quiet: bool) -> Any:
    """Make the estimator that the options ask for."""
    from rulefield.estimators.joint.estimator import JointCRF
    from rulefield.rules import expectation_text
    from rulefield.rules import text as rules_text

    schemes = {}
    for task in tasks:
        known = [row[task] for row in labels if row[task] is not None]
        if not known:
            raise InputError(f"no sequence has labels of the task {task!r}; see --tasks and --unknown.")
        schemes[task] = choose_scheme(known, options.scheme, quiet)
    return JointCRF(
        tasks=list(tasks),
        scheme=schemes,
        rules=rules_text.load(options.rules) if options.rules else None,
        l2=options.penalties["l2"],
        expectations=expectation_text.load(options.expect) if options.expect else None,
        features=choose_features(tokens, options.template, options.hash_bits),
        min_count=options.min_count,
        max_iter=options.max_iter or ITERATIONS,
        n_jobs=options.jobs,
        verbose=progress(quiet),
    )


def _dev_line(crf: Any, held_out: FileContents) -> str:
    from rulefield.metrics import span_f1, token_accuracy

    predicted = crf.predict(held_out.tokens)
    parts = []
    for task in crf.tasks_:
        rows = labeled_rows(held_out, task)
        if not rows:
            continue
        gold, guess = [(held_out.labels or [])[i][task] for i in rows], [predicted[i][task] for i in rows]
        f1 = span_f1(gold, guess, scheme=crf.scheme[task] or "auto")
        parts.append(f"{task} span F1 {100 * f1:.2f}, token accuracy {100 * token_accuracy(gold, guess):.2f}")
    return "; ".join(parts) or "no sequence is fully labeled"
