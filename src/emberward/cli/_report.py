"""``emberward report`` and ``emberward watch``: a run from its folder alone."""

import getpass
import json
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path

from rich.live import Live
from rich.text import Text

from emberward.cli._called import called_as
from emberward.cli._console import Screen, waiting_for
from emberward.cli._keys import Keys
from emberward.cli._watch_view import KEYS, watch_lines
from emberward.findings import CATALOGUE, ConfigError, exit_code_of
from emberward.report import (
    Glance,
    Progress,
    ProgressReader,
    RunFolder,
    append_line,
    duration_text,
    printable,
    progress_text,
    read_glance,
    read_outcome,
    read_run,
    run_json,
    run_text,
    write_bundle,
)
from emberward.supervise import facts_of, is_abandoned, silence_finding
from emberward.web import worst_lags

POLL_S = 0.5
MAX_LOSSES = 512
"""Steps that the curve of the live view shows."""


def report_run(folder: RunFolder, screen: Screen) -> int:
    """Prints the run's summary; 1 when it holds an error finding that no later attempt has got over."""
    return _sum_up(folder, screen)


def _sum_up(folder: RunFolder, screen: Screen, *, kind: str | None = None) -> int:
    with waiting_for(screen, "reading the run"):
        report = read_run(folder)
    now_unix = time.time()
    silence = silence_finding(folder, now_unix=now_unix)
    if silence is not None:
        report = replace(report, findings=(*report.findings, silence))
    said = () if silence is None else (silence,)
    glance = read_glance(folder, now_unix=now_unix, is_alone=is_abandoned(folder) or bool(said), said=said,
                         program=screen.program)  # fmt: skip
    card = glance.card
    if screen.is_json:
        shown = None if card is None else card.to_json()
        more = {} if kind is None else {"kind": kind}
        screen.document(report.findings, **more, **run_json(report), state=glance.state.value, card=shown)
    else:
        screen.say(run_text(report, state=glance.state.value, width=screen.width))
        if card is not None:
            screen.say("\n" + printable(card.text()))
    return exit_code_of(report.findings)


def acknowledge(folder: RunFolder, code: str, *, silence_s: float, screen: Screen) -> int:
    """Notes that a person has taken up the findings of a code: for so long nobody is told, and nothing done, for them.

    Returns 0. Raises ConfigError C113 for a code that the catalogue does not have.
    """
    if code not in CATALOGUE:
        raise ConfigError(
            "there is no such finding",
            code="C113",
            where="--ack",
            expected="a finding's code, as H125",
            found=code,
            next="docs/findings.md lists the codes",
        )
    now_unix = time.time()
    line = {"code": code, "by": _own_name(), "at_unix": now_unix, "until_unix": now_unix + silence_s}
    append_line(folder.acknowledged, line)
    screen.say(f"{code} is acknowledged: no notification and no action for {duration_text(silence_s)}")
    screen.document([], acknowledged=line)
    return 0


def bundle_run(folder: RunFolder, to: Path, screen: Screen, *, keep_hosts: bool) -> int:
    """Packs the run for a ticket and says what is in it; 0."""
    with waiting_for(screen, "packing the run"):
        bundle = write_bundle(folder, to, user=_own_name(), keep_hosts=keep_hosts)
    size = to.stat().st_size
    screen.say(f"wrote {to}: {len(bundle.files)} files, {size / 1e6:.2f} MB")
    screen.say("taken out: " + ", ".join(f"{count} {kind}" for kind, count in bundle.hidden.items()))
    if bundle.left_out:
        screen.say(f"left out, too many files: {len(bundle.left_out)}")
    screen.say("look through it before you send it: what no rule knows is still there")
    screen.document(
        [],
        written=str(to),
        bytes=size,
        files=dict(bundle.files),
        taken_out=bundle.hidden,
        left_out=list(bundle.left_out),
    )
    return 0


def _own_name() -> str | None:
    """The name of the person who calls; None when the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def watch_run(folder: RunFolder, screen: Screen) -> int:
    """Shows the run until it ends; blocks. On a terminal the whole view with keys; plain lines elsewhere.

    With ``--json`` one object a line, each with its `kind`: see docs/window.md, "Lines for a program".
    """
    if screen.is_json:
        _watch_lines(folder, screen)
        return _sum_up(folder, screen, kind="end")
    if screen.is_live:
        _watch_live(folder, screen)
    else:
        _watch_plain(folder, screen)
    return _sum_up(folder, screen)


def _glance(folder: RunFolder) -> Glance:
    now_unix = time.time()
    alone, said = facts_of(folder, now_unix)
    return read_glance(folder, now_unix=now_unix, is_alone=alone, said=said, program=called_as())


def _watch_plain(folder: RunFolder, screen: Screen) -> None:
    reader, last, is_silent, seen = ProgressReader(folder), "", False, set[str]()
    while True:
        progress, _ = reader.poll(now_unix=time.time())
        text, age = watched_text(progress, width=None)
        if text != last:
            screen.say(text + age)
        last = text
        silence = silence_finding(folder, now_unix=time.time())
        if silence is not None and not is_silent:
            screen.complain(f"{silence.severity.value} {silence.code} {silence.message}")
        is_silent = silence is not None
        if _has_ended(folder):
            return
        for finding in _glance(folder).findings:
            line = f"{finding.severity.value} {finding.code} {finding.message}"
            if line not in seen:
                screen.say(line)
            seen.add(line)
        time.sleep(POLL_S)


def _watch_lines(folder: RunFolder, screen: Screen) -> None:
    """A line of JSON for the run as it is, then one for each change."""
    reader, last, seen = ProgressReader(folder), "", set[str]()
    state: str | None = None
    while True:
        progress, _ = reader.poll(now_unix=time.time())
        glance = _glance(folder)
        card = None if glance.card is None else glance.card.to_json()
        if state is None:
            screen.document(glance.findings, kind="snapshot", state=glance.state.value, card=card,
                            progress=asdict(progress))  # fmt: skip
            seen = {json.dumps(each.to_json()) for each in glance.findings}
        elif glance.state.value != state:
            screen.document([], kind="state", state=glance.state.value, was=state, card=card)
        for finding in glance.findings:
            if json.dumps(finding.to_json()) not in seen:
                seen.add(json.dumps(finding.to_json()))
                screen.document([finding], kind="finding", card=card)
        text, _ = watched_text(progress, width=None)
        if state is not None and text != last:
            screen.document([], kind="step", progress=asdict(progress))
        state, last = glance.state.value, text
        if _has_ended(folder):
            return
        time.sleep(POLL_S)


def _watch_live(folder: RunFolder, screen: Screen) -> None:
    """The whole view, drawn when something changed or a key was pressed. See `KEYS`."""
    reader = ProgressReader(folder)
    losses: deque[float | None] = deque(maxlen=MAX_LOSSES)
    chosen, is_held, has_help = 0, False, False
    with Live(Text(""), console=screen.console, auto_refresh=False, screen=True) as live, Keys() as keys:
        while True:
            progress, new = reader.poll(now_unix=time.time())
            losses.extend(line.get("loss") for line in new)
            if not is_held:
                size = live.console.size
                lines = watch_lines(
                    _glance(folder),
                    progress,
                    losses=list(losses),
                    lag=worst_lags(folder),
                    width=size.width,
                    height=size.height - 1,
                    chosen=chosen,
                    keys=KEYS if has_help else None,
                )
                live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
            if _has_ended(folder):
                return
            key = keys.wait(POLL_S)
            if key == "q":
                return
            chosen += {"j": 1, "k": -1}.get(key or "", 0)
            is_held ^= key == "p"
            has_help ^= key == "?"


def watched_text(progress: Progress, *, width: int | None) -> tuple[str, str]:
    """Where the run stands, and for how long it has run and been silent: the second part where both fit."""
    if progress.phase == "done":
        return progress_text(progress, width=width), ""
    times = [] if progress.running_s is None else [f"ran {duration_text(progress.running_s)}"]
    times += [] if progress.age_s is None else [f"last heartbeat {duration_text(progress.age_s)} ago"]
    text, age = progress_text(progress, width=width), "".join(f"  {each}" for each in times)
    return text, age if width is None or len(text) + len(age) <= width else ""


def _has_ended(folder: RunFolder) -> bool:
    """Whether nothing will happen in the folder any more: its last attempt has an end, or its launcher died."""
    return read_outcome(folder) is not None or is_abandoned(folder)
