"""What the campaigns over unseen sets share: running a verb with ``--json``, and a first contact that happens once.

[Note: unseen sets]
A set is a folder of tests/unseen, committed with its truth before the code met it. With ``--first-contact`` the cases
that the code has not met are run, and what it said goes into docs/measured/first_contact/SET.json, once and for ever.
Cases come in an order that is drawn with a seed, so that those begun within ``--minutes`` are a sample; the others stay
unmet, and a later first contact runs them into SET_part_2.json and so on. Without ``--first-contact`` only cases that
have been met are run, into docs/measured/unseen_SET.json, which says only what has been fixed since.
"""

import argparse
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    """Adds what each campaign over a set takes: cases, how many and for how long, and those of all results."""
    parser.add_argument("names", nargs="*", help="cases of the set; all when none is named")
    parser.add_argument("--first-contact", action="store_true", help="meet the cases that the code has not met")
    parser.add_argument("--at-once", type=int, default=1, help="cases that run beside one another")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case later than this")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    add_options(parser)


def parts_of(name: str) -> list[Path]:
    """The files of first contact that the set `name` has had so far, first to last."""
    later = FIRST_CONTACT.glob(f"{name}_part_*.json")
    first = FIRST_CONTACT / f"{name}.json"
    return [*([first] if first.exists() else ()), *sorted(later, key=lambda path: int(path.stem.rpartition("_")[2]))]


def met(name: str) -> set[str]:
    """The cases of the set `name` that the code has met."""
    rows = [row for path in parts_of(name) for row in json.loads(path.read_text())["rows"]]
    return {next(row[key] for key in ("case", "program", "script", "machine", "set") if key in row) for row in rows}


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
    """Runs each case of `options.set` that is due and keeps its row; the summary. None, said, when no case is due.

    `tell`: what is said of a row, if anything. `name`: of the results where it is not ``unseen_SET``. What ran before a
    SIGTERM, a Ctrl-C or the end of the minutes is kept. See [Note: unseen sets].
    """
    known, parts, have = sorted(cases), parts_of(options.set), met(options.set)
    asked = [case for case in known if not options.names or case in options.names]
    due = [case for case in asked if (case in have) != options.first_contact]
    if not due:
        state = "no case that is left to meet" if options.first_contact else "met none: run with --first-contact before"
        sys.stderr.write(f"{options.set}: of {len(asked)} cases {state}\n")
        return None
    results = None
    if not options.first_contact:
        results = Results(
            name or f"unseen_{options.set}", what=what, measures=measures, is_fresh=options.fresh, folder=options.into
        )
        due = [case for case in due if not results.has(case)]
    random.Random(options.seed).shuffle(due)
    end_s, load, rows = time.monotonic() + 60 * options.minutes, [os.getloadavg()[0]], dict[str, Row]()

    def one(case: str) -> None:
        if time.monotonic() > end_s:
            return
        load.append(os.getloadavg()[0])
        row = run(case)
        if said := tell(row):
            sys.stderr.write(f"{case} {said}\n")
        rows[case] = row
        if results is not None:
            results.add(case, row)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    pool = ThreadPoolExecutor(options.at_once)
    with contextlib.suppress(KeyboardInterrupt):
        list(pool.map(one, due))
    pool.shutdown(wait=True, cancel_futures=True)
    signal.signal(signal.SIGTERM, before)
    if results is not None:
        latest = results.latest()
        total = {**summary(list(latest.values())), "not_run": sorted(set(known) - set(latest))}
        results.summarise(total)
        return total
    total = {
        **summary(list(rows.values())),
        "not_run": sorted(set(known) - have - set(rows)),
        "load": [round(min(load), 1), round(max(load), 1)],
        "seed": options.seed,
        "at_once": options.at_once,
    }
    if not rows:
        return total
    keep_first_contact(
        options.set if not parts else f"{options.set}_part_{len(parts) + 1}",
        what=f"{what}: {json.dumps(total)}",
        measures=measures,
        rows=[{"case": case, **row} for case, row in rows.items()],
    )
    sys.stdout.write(json.dumps(total, indent=1) + "\n")
    return total
