"""What the campaigns over unseen sets share: running a verb with ``--json``, and a first contact that happens once.

[Note: unseen sets]
A set is a folder of tests/unseen, committed with its truth before the code met it. With ``--first-contact`` what the
code said goes into docs/measured/first_contact/SET.json, once and for ever; without, into
docs/measured/unseen_SET.json, which needs that first contact and says only what has been mended since.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from measured import FIRST_CONTACT, ROOT, Results, add_options, keep_first_contact

SETS = ROOT / "tests" / "unseen"
Row = dict[str, Any]


def answer_of(words: Sequence[str], *, folder: str | Path, limit_s: float) -> tuple[int | None, dict[str, Any]]:
    """The exit code and document of ``emberward WORDS`` run in `folder`; (None, {}) when it did not end in `limit_s`.

    A document that cannot be read is the end of standard error, as ``unreadable``.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "emberward", *words],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, {}
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"unreadable": done.stderr[-500:]}


def add_set_options(parser: argparse.ArgumentParser) -> None:
    """Adds what each campaign over a set takes: cases, ``--first-contact``, and those of all results."""
    parser.add_argument("names", nargs="*", help="cases of the set; all when none is named")
    parser.add_argument("--first-contact", action="store_true", help="the code has never met this set")
    add_options(parser)


def contact(
    options: argparse.Namespace,
    cases: Iterable[str],
    run: Callable[[str], Row],
    summary: Callable[[list[Row]], dict[str, Any]],
    *,
    what: str,
    measures: Sequence[str],
    tell: Callable[[Row], str],
    name: str | None = None,
) -> dict[str, Any] | None:
    """Runs each case of `options.set` and keeps its row; the summary. None, said, when the first contact is missing.

    Runs the cases that are named, or all; without ``--first-contact`` those that the round has not. `tell`: what is
    said of a row, if anything. `name`: of the results where it is not ``unseen_SET``. See [Note: unseen sets].
    """
    results = None
    if not options.first_contact:
        if not (FIRST_CONTACT / f"{options.set}.json").exists():
            sys.stderr.write(f"{options.set} has had no first contact: run with --first-contact once, before this\n")
            return None
        name = name or f"unseen_{options.set}"
        results = Results(name, what=what, measures=measures, is_fresh=options.fresh, folder=options.into)
    rows: list[Row] = []
    for case in cases:
        if (options.names and case not in options.names) or (results is not None and results.has(case)):
            continue
        rows.append(run(case))
        if said := tell(rows[-1]):
            sys.stderr.write(f"{case} {said}\n")
        if results is not None:
            results.add(case, rows[-1])
    if results is None:
        total = summary(rows)
        keep_first_contact(options.set, what=f"{what}: {json.dumps(total)}", measures=measures, rows=rows)
        sys.stdout.write(json.dumps(total, indent=1) + "\n")
    else:
        total = summary(list(results.latest().values()))
        results.summarise(total)
    return total
