"""The parts of a run's page, each written from the run's glance alone. All words of the page come from here."""

import math
import re
import shlex
from datetime import UTC, datetime

from emberward.findings import CATALOGUE, Finding, as_typed
from emberward.report import (
    MOMENT,
    Card,
    Glance,
    Html,
    State,
    duration_text,
    join,
    loss_text,
    moment_unix,
    read_json,
    tag,
    witness_picture,
)
from emberward.report import count_text as count
from emberward.web._mesh import mesh_part
from emberward.web._pictures import figure
from emberward.web._strip import strip_part

ICONS = {
    State.NOT_STARTED: "○",
    State.STARTING: "◔",
    State.RUNNING: "●",
    State.EVALUATING: "◐",
    State.SAVING: "◒",
    State.SAMPLING: "◐",
    State.STALLED: "■",
    State.ABANDONED: "✖",
    State.DONE: "✔",
    State.STOPPED: "◼",
    State.FAILED: "✖",
    State.KILLED: "✖",
}
SEVERITY_ICONS = {"error": "■", "warning": "▲", "notice": "●"}
LABELS = {
    "what": "What",
    "who": "Who",
    "why": "Why",
    "not": "Not",
    "certainty": "How sure",
    "do": "Do",
    "cost": "Cost",
    "changed": "Changed",
    "seen": "Seen before",
}
MAX_ROWS = 200
"""Rows of a table; the newest are shown and the rest counted."""
_COMMAND = re.compile(
    r"(?:'[^']*/emberward'|(?:\S*/)?emberward) |(?:kill|ps|rm|pip|srun|ssh|torchrun|make) (?:-|/|install |\S+ true)"
)
"""How a line of a card begins that can be pasted into a shell; others are said to a person."""
_ASIDE = re.compile(r"\s{2,}(?=\()|, (?=or )|; ")
"""What parts a command from the remark behind it."""


def tone_of(state: State) -> str:
    """The class that colours a state."""
    if state.is_bad:
        return "bad"
    if state is State.DONE:
        return "done"
    return "idle" if state in (State.NOT_STARTED, State.STOPPED) else "good"


def fragments(glance: Glance, *, runbooks: bool = True) -> dict[str, Html]:
    """Every part of the page that changes, by its name. `runbooks`: whether a finding's runbook page can be opened."""
    return {
        "head": head_part(glance),
        "tiles": tiles_part(glance),
        "card": card_part(glance, runbooks=runbooks),
        "strip": strip_part(glance),
        "mesh": mesh_part(glance),
        "findings": findings_part(glance, runbooks=runbooks),
        "attempts": attempts_part(glance),
        "saves": saves_part(glance),
    }


def moment(unix: float | None) -> Html | None:
    """A moment as a person reads it, in UTC; the script shows it in the reader's own zone."""
    if unix is None:
        return None
    at = datetime.fromtimestamp(unix, tz=UTC)
    return tag("time", utc_text(unix), datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}")


def utc_text(unix: float) -> str:
    """A moment to the minute, in UTC."""
    return f"{datetime.fromtimestamp(unix, tz=UTC):%Y-%m-%d %H:%M} UTC"


def head_part(glance: Glance) -> Html:
    """State, since when, and what runs."""
    state = glance.state
    facts = []
    if glance.num_ranks is not None:
        ranks = "1 rank" if glance.num_ranks == 1 else f"{glance.num_ranks:,} ranks"
        hosts = "" if not glance.hosts else f" on {len(glance.hosts)} host{'s' if len(glance.hosts) > 1 else ''}"
        facts.append(ranks + hosts)
    axes: dict[str, set[int]] = {}
    for rank in glance.ranks:
        for axis, index in (rank.get("coordinates") or {}).items():
            axes.setdefault(str(axis), set()).add(index)
    if axes:
        facts.append(" · ".join(f"{axis} {len(indices)}" for axis, indices in axes.items()))
    if glance.num_attempts:
        facts.append(f"attempt {glance.num_attempts}")
    since = None if glance.since_unix is None else join(Html(" since "), moment(glance.since_unix))
    doing = f": {glance.detail}" if glance.detail and not state.is_over else ""
    return join(
        tag(
            "p",
            tag("span", ICONS[state], class_="icon", aria_hidden="true"),
            tag("strong", state.value.upper() + doing),
            tag("span", since, class_="since") if since else None,
            class_=f"state {tone_of(state)}",
            role="status",
        ),
        tag("p", " — ".join(facts), class_="facts") if facts else None,
        tag("button", "copy", type="button", data_copy=_as_message(glance), aria_label="copy state and card as text"),
    )


def _as_message(glance: Glance) -> str:
    """State and card as a person sends them to a colleague."""
    head = f"{glance.state.value.upper()}  {glance.folder.name}/{glance.folder.id}"
    head += "" if glance.step is None else f", step {glance.step:,}"
    head += "" if glance.step is None or glance.steps is None else f" of {glance.steps:,}"
    return head if glance.card is None else f"{head}\n{glance.card.text()}"


def _tile(label: str, value: object, note: object = None, *, class_: str = "", id: str | None = None) -> Html:
    return tag(
        "div",
        tag("dt", label),
        tag("dd", tag("span", value, class_="value", id=id), tag("span", note, class_="note") if note else None),
        class_=f"tile {class_}".strip(),
    )


def tiles_part(glance: Glance) -> Html:
    """The figures of the first screen; the age of the last step is the largest."""
    return tag("dl", *_tiles(glance), class_="tiles")


def _tiles(glance: Glance) -> list[Html]:
    tiles = [_age_tile(glance)]
    step = "-" if glance.step is None else f"{glance.step:,}"
    tiles.append(_tile("step", step, None if glance.steps is None else f"of {glance.steps:,}"))
    tiles.append(
        _tile(
            "loss",
            loss_text(glance.loss, is_bad=glance.has_bad_loss, unknown="-"),
            "of the last step" if glance.logged is None else "as the program logged it",
        )
    )
    if glance.step_s is not None:
        tiles.append(_tile("step time", f"{glance.step_s:.3g} s", _foretold(glance) or "median of the last"))
    if glance.tokens_per_s is not None:
        mfu = None if glance.mfu is None else f"MFU {100 * glance.mfu:.1f}%"
        tiles.append(_tile("tokens/s", count(glance.tokens_per_s), mfu or "MFU unknown here"))
    if (good := glance.goodput) is not None:
        about = "" if glance.is_goodput_exact else "about "
        note = f"of {duration_text(good.elapsed_s)}"
        if good.losses:
            # Rounded up: 0% would say that nothing was lost.
            share = f"{math.ceil(1000 * good.lost_share) / 10:g}%"
            note += f"; {share} lost, most to {good.losses[0].cause.replace('_', ' ')}"
        if glance.state is State.STALLED:
            note += "; now it stands still"
        tiles.append(_tile("goodput", f"{about}{100 * good.share:.1f}%", note))
    save = glance.save
    risk = None
    if glance.at_risk_steps is not None:
        took = "" if glance.step_s is None else f", {duration_text(glance.at_risk_steps * glance.step_s)}"
        steps = "1 step" if glance.at_risk_steps == 1 else f"{glance.at_risk_steps:,} steps"
        risk = f"{steps} at risk{took}" if glance.at_risk_steps else "no work at risk"
    if save is not None or risk is not None:
        tiles.append(_tile("last save", "none" if save is None else f"step {save.step:,}", risk))
    if glance.eta_s is not None and not glance.state.is_bad:
        tiles.append(_tile("time to go", duration_text(glance.eta_s), "of steps alone"))
    return tiles


def _foretold(glance: Glance) -> str | None:
    """What the pre-flight said a step takes; None where it knew no device."""
    page = read_json(glance.folder.preflight) or {}
    said = page.get("prediction")
    seconds = said.get("step_s") if isinstance(said, dict) else None
    return f"pre-flight: {seconds:.3g} s" if isinstance(seconds, int | float) else None


def _age_tile(glance: Glance) -> Html:
    """How long ago the last step was; the browser's own clock counts on from here."""
    if glance.last_step_unix is None:
        return _tile("last step", "none yet", "no step was written", class_="age")
    age_s = max(glance.now_unix - glance.last_step_unix, 0.0)
    has_limit = glance.phase in (None, "train") and not glance.state.is_over
    note: object = f"late after {duration_text(glance.limit_s)}" if has_limit else f"no limit in {glance.phase}"
    if glance.state.is_over:
        note = join(Html("the run ended "), moment(glance.last_step_unix))
    return tag(
        "div",
        tag("dt", "since the last step"),
        tag(
            "dd",
            tag("span", duration_text(age_s), class_="value", id="age"),
            tag("span", note, class_="note"),
        ),
        class_="tile age" + (" late" if glance.is_late else ""),
        id="age-tile",
        data_last=f"{glance.last_step_unix:.3f}",
        data_limit=f"{glance.limit_s:.3f}" if has_limit else None,
    )


def card_part(glance: Glance, *, runbooks: bool = True) -> Html:
    """The incident card, or one line that says that there is none."""
    if glance.card is None:
        if glance.state.is_bad:
            text = "No finding says why. The run is not healthy: look at its logs, or let emberward explain it."
            command = f"{shlex.quote(glance.program)} explain {shlex.quote(str(glance.folder.path))}"
            return tag("section", tag("p", text), _copyable(command), class_="card warning", aria_label="incident")
        over = glance.state.is_over or glance.state is State.NOT_STARTED
        text = "No incident was recorded." if over else "Healthy: nothing stands against this run."
        notices = len(glance.findings)
        more = f" {notices} notice{'s' if notices > 1 else ''} below." if notices else ""
        past = len(glance.recovered)
        recovered = "" if not past else f" A later attempt got over {past} earlier finding{'s' if past > 1 else ''}."
        icon = tag("span", "✔", class_="icon", aria_hidden="true")
        return tag("section", tag("p", icon, text + more + recovered), class_="card healthy", aria_label="incident")
    return card_html(glance.card, runbooks=runbooks, others=_num_others(glance))


def _num_others(glance: Glance) -> int:
    return sum(1 for finding in glance.findings if finding.severity.value != "notice") - 1


def card_html(card: Card, *, runbooks: bool, others: int = 0, copies: bool = True) -> Html:
    """A card as a definition list, in the words of the terminal. `copies`: with buttons, which need a script."""
    rows = []
    for label, lines in card.rows:
        shown: list[object] = [_to_do(line, copies=copies) if label == "do" else tag("p", line) for line in lines]
        rows.append(tag("div", tag("dt", LABELS[label]), tag("dd", *shown), class_=f"row {label}"))
    runbook = tag("a", "runbook", href=f"runbook?code={card.code}", class_="runbook") if runbooks else None
    more = tag("a", f"and {others} more below", href="#findings") if others > 0 else None
    return tag(
        "section",
        tag(
            "header",
            tag("span", SEVERITY_ICONS[card.severity], class_="icon", aria_hidden="true"),
            tag("h2", f"{card.severity.upper()} {card.code}: {card.title}"),
            tag(
                "span",
                more,
                runbook,
                tag("button", "copy as text", type="button", data_copy=card.text()) if copies else None,
                class_="acts",
            ),
        ),
        tag("dl", *rows),
        class_=f"card {card.severity}",
        aria_label="incident",
    )


def _to_do(line: str, *, copies: bool) -> Html:
    """A line of what to do: a command, which is copied without the remark behind it, or words."""
    if (moment := MOMENT.search(line)) is not None:
        at = tag("span", moment[0], data_until=f"{moment_unix(moment):.0f}")
        return tag("p", line[: moment.start()], at, line[moment.end() :])
    if _COMMAND.match(line) is None:
        return tag("p", line)
    command, _, remark = _ASIDE.sub("\0", line, count=1).partition("\0")
    shown = _copyable(command) if copies else tag("p", tag("code", command), class_="command")
    return join(shown, tag("p", remark.strip("()"), class_="note")) if remark else shown


def _copyable(command: str) -> Html:
    return tag("p", tag("code", command), tag("button", "copy", type="button", data_copy=command), class_="command")


def table(header: list[str], rows: list[list[object]], *, label: str, empty: str) -> Html:
    """A table of the last MAX_ROWS rows; `empty` when there is none."""
    if not rows:
        return tag("p", empty, class_="empty")
    body = [
        tag("tr", *(cell if isinstance(cell, Html) and cell.startswith("<td") else tag("td", cell) for cell in row))
        for row in rows[-MAX_ROWS:]
    ]
    left = len(rows) - MAX_ROWS
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *(tag("th", each, scope="col") for each in header))), tag("tbody", *body)),
        tag("p", f"and {left} before these", class_="note") if left > 0 else None,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"table of {label}",
    )


def _finding(finding: Finding, *, is_past: bool, runbooks: bool, program: str) -> Html:
    entry = CATALOGUE.get(finding.code)
    where = [] if finding.phase.step is None else [f"step {finding.phase.step}"]
    where += [] if finding.site is None else [finding.site]
    details: list[object] = [
        tag("p", line) for line in (*finding.evidence, *(f"not: {each}" for each in finding.ruled_out))
    ]
    severity = "recovered" if is_past else finding.severity.value
    return tag(
        "details",
        tag(
            "summary",
            tag(
                "span",
                SEVERITY_ICONS[finding.severity.value],
                class_=f"icon {finding.severity.value}",
                aria_hidden="true",
            ),
            tag("strong", f"{severity} {finding.code}"),
            f" {finding.message}",
            tag("span", " · ".join(where), class_="note") if where else None,
        ),
        *details,
        None if (witness := witness_picture(finding)) is None else figure(witness),
        tag("p", "next: ", tag("code", as_typed(finding.next, program))) if finding.next else None,
        tag("p", tag("a", f"runbook: {finding.code} {entry.title}", href=f"runbook?code={finding.code}"))
        if runbooks and entry is not None
        else None,
        class_="finding",
    )


def findings_part(glance: Glance, *, runbooks: bool = True) -> Html:
    """All findings, the newest first; those that a later attempt got over are marked."""
    shown = [
        _finding(each, is_past=False, runbooks=runbooks, program=glance.program) for each in reversed(glance.findings)
    ]
    shown += [
        _finding(each, is_past=True, runbooks=runbooks, program=glance.program) for each in reversed(glance.recovered)
    ]
    if not shown:
        return tag("p", "No findings.", class_="empty")
    left = len(shown) - MAX_ROWS
    return join(*shown[:MAX_ROWS], tag("p", f"and {left} more in findings.jsonl", class_="note") if left > 0 else None)


def attempts_part(glance: Glance) -> Html:
    """The attempts: when, how each ended and why, what it lost, what had changed before it."""
    ends = {line.get("attempt"): line for line in glance.attempts if line.get("event") == "end"}
    rows: list[list[object]] = []
    for line in glance.attempts:
        if line.get("event") in ("rewind", "undo_rewind"):
            rows.append(["", line.get("time"), "rewind", line.get("text"), "", ""])
        if line.get("event") != "start":
            continue
        end = ends.get(line.get("attempt")) or {}
        lost = end.get("hours_lost")
        hours = end.get("hours")
        rows.append(
            [
                line.get("attempt"),
                str(line.get("start") or "")[:19].replace("T", " "),
                end.get("outcome") or ("no end" if end else "no end yet"),
                end.get("why") or line.get("why") or "",
                ""
                if not isinstance(hours, int | float)
                else duration_text(hours * 3600)
                + (f", {duration_text(lost * 3600)} lost" if isinstance(lost, int | float) and lost else ""),
                "; ".join(str(each) for each in line.get("changed") or ()) or "nothing",
            ]
        )
    header = ["attempt", "start (UTC)", "end", "why", "time", "changed since the last good attempt"]
    return table(header, rows, label="attempts", empty="No attempt was recorded.")


def saves_part(glance: Glance) -> Html:
    """The saves, and whether each is whole."""
    rows: list[list[object]] = [
        [
            f"{save.step:,}",
            "-" if save.num_bytes is None else f"{save.num_bytes / 1e6:,.1f} MB",
            "-" if save.world_size is None else save.world_size,
            "✔ whole, all files there" if save.problem is None else f"✖ {save.problem}",
            ", ".join(save.names),
        ]
        for save in glance.saves
    ]
    return table(["step", "size", "ranks", "state", "kept as"], rows, label="saves", empty="No save yet.")
