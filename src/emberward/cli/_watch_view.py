"""The live view of a run in a terminal, as lines: what the first screen of its page says, in the same words. Pure."""

from collections.abc import Mapping, Sequence

from emberward.findings import Severity
from emberward.report import (
    CardFacts,
    Glance,
    Progress,
    State,
    card_of,
    count_text,
    counted_down,
    curve_text,
    duration_text,
    fit,
    printable,
    progress_text,
)

NARROW = 60
"""Columns below which state, age and card are all that is shown."""
MAX_LAG_RANKS = 4
LABEL = 10
KEYS = (("q", "end this view; the run goes on"), ("j k", "next and last finding"), ("p", "hold the screen, and go on"),
        ("?", "show and hide these keys"))  # fmt: skip


def watch_lines(
    glance: Glance,
    progress: Progress,
    *,
    losses: Sequence[float | None],
    lag: Mapping[int, Sequence[float | None]],
    width: int,
    height: int,
    chosen: int = 0,
    keys: Sequence[tuple[str, str]] | None = None,
) -> list[str]:
    """The view in at most `height` lines of `width` columns: state, progress, curve, lag of the worst ranks, card.

    `losses`: one a step, the newest last; `lag`: seconds behind the peers by rank and step, the worst rank first.
    `chosen`: which finding's card, counted round from the worst; `keys` are shown in its place.
    """
    since = "" if glance.since_unix is None else f" for {duration_text(glance.now_unix - glance.since_unix)}"
    lines = [f"{glance.state.value.upper()}{since}  {glance.folder.name} {glance.folder.id}"]
    lines += [_age(glance)] if _age(glance) else []
    if width >= NARROW:
        lines.append(progress_text(progress, width=width))
        lines += [f"{label:<{LABEL}} {text}" for label, text in _rows(glance, losses, lag, width=width - LABEL - 1)]
    lines.append("")
    lines += [f"{key:<{LABEL}} {what}" for key, what in keys] if keys is not None else _card(glance, chosen)
    fitted = [part for line in lines for part in fit(printable(line), width).split("\n")]
    if len(fitted) > height:
        fitted = [*fitted[: max(height - 1, 1)], "..."]
    return fitted


def _card(glance: Glance, chosen: int) -> list[str]:
    """The card of the worst finding, or of another that a person went on to."""
    others = [each for each in reversed(glance.findings) if each.severity is not Severity.NOTICE]
    if glance.card is None:
        return ["nothing stands against this run"]
    worst = glance.told
    others = [each for each in others if each is not worst]
    number = chosen % (1 + len(others))
    if number == 0:
        card = glance.card
    else:
        ranks = {rank["rank"]: rank for rank in glance.ranks if isinstance(rank.get("rank"), int)}
        card = card_of(others[number - 1], CardFacts(ranks=ranks, num_ranks=glance.num_ranks))
    head = [f"finding {number + 1} of {1 + len(others)}"] if others else []
    return [*head, *(counted_down(line, now_unix=glance.now_unix) for line in card.text().split("\n"))]


def _age(glance: Glance) -> str:
    if glance.last_step_unix is None or glance.state is State.DONE:
        return ""
    age = duration_text(max(glance.now_unix - glance.last_step_unix, 0.0))
    limit = f"no limit in {glance.phase}" if glance.phase not in (None, "train") else duration_text(glance.limit_s)
    if glance.phase in (None, "train"):
        limit = f"LATE, limit {limit}" if glance.is_late else f"limit {limit}"
    return f"last step {age} ago ({limit})"


def _rows(
    glance: Glance, losses: Sequence[float | None], lag: Mapping[int, Sequence[float | None]], *, width: int
) -> list[tuple[str, str]]:
    rows = []
    if len(losses) > 1:
        rows.append(("loss", f"{curve_text(losses, width=min(width - 24, 60))}  last {len(losses)} steps"))
    if glance.mfu is not None:
        rows.append(("MFU", f"{100 * glance.mfu:.1f}%"))
    for rank, values in list(lag.items())[:MAX_LAG_RANKS]:
        known = [value for value in values if value is not None]
        if known:
            behind = sum(known) / len(known)
            rows.append(
                (f"rank {rank}", f"{curve_text(values, width=min(width - 24, 60))}  {1000 * behind:.0f} ms behind")
            )
    save = "none" if glance.save is None else f"step {glance.save.step}"
    risk = "" if not glance.at_risk_steps else f", {count_text(glance.at_risk_steps)} steps at risk"
    rows.append(("last save", save + risk))
    if glance.lost_s:
        rows.append(("lost", f"{duration_text(glance.lost_s)} in {glance.num_attempts} attempts"))
    return rows
