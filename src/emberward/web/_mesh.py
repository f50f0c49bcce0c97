"""The ranks as tiles by their place in the mesh, coloured and lettered by what is known of each."""

from collections import defaultdict
from typing import Any

from emberward.report import Glance, Html, State, join, tag

MAX_TILES = 1024
"""Above that many ranks a tile stands for a host, in the state of its worst rank."""
RANK_STATES = ("named", "dead", "waits", "late", "unknown", "ok")
"""From worst to best."""
LETTERS = {"named": "!", "dead": "x", "waits": "w", "late": "~", "unknown": "?", "ok": ""}
MEANINGS = {
    "named": "named by a finding",
    "dead": "ended",
    "waits": "waiting for others",
    "late": "waited for",
    "unknown": "not heard of",
    "ok": "without a finding",
}


def rank_states(glance: Glance) -> dict[int, str]:
    """The state of each rank that is known, by the findings that stand."""
    states = {rank["rank"]: "ok" for rank in glance.ranks if isinstance(rank.get("rank"), int)}
    if not states and glance.num_ranks is not None:
        states = dict.fromkeys(range(min(glance.num_ranks, 1 << 15)), "unknown" if glance.num_watched is None else "ok")
    for finding in glance.findings:
        if finding.severity.value == "notice" and finding is not glance.told:
            continue
        is_late = finding.kind.value == "straggler"
        named = [member.rank for member in finding.cycle] if finding.cycle else list(finding.culprit_ranks)
        if not is_late:
            _put(states, finding.waiting_ranks, "waits")
        state = "late" if is_late else "dead" if finding.kind.value == "crash" else "named"
        _put(states, tuple(named), state)
    return states


def _put(states: dict[int, str], ranks: tuple[int, ...], state: str) -> None:
    for rank in ranks:
        if RANK_STATES.index(state) < RANK_STATES.index(states.get(rank, "ok")):
            states[rank] = state


def mesh_part(glance: Glance) -> Html:
    """The tiles: a block for each pipeline stage, in it a row for each data-parallel index, a tile for each rank."""
    states = rank_states(glance)
    if not states:
        return tag("p", "No rank has said where it is yet.", class_="empty")
    by_rank = {rank["rank"]: rank for rank in glance.ranks if isinstance(rank.get("rank"), int)}
    counts = {state: sum(1 for each in states.values() if each == state) for state in RANK_STATES}
    is_live = not glance.state.is_over and glance.state is not State.NOT_STARTED
    said = [f"{number:,} {MEANINGS[state]}" for state, number in counts.items() if number]
    legend = tag("p", ", ".join(said) + ("" if is_live else ", when the run was last seen"), class_="note")
    blocks = _host_tiles(states, by_rank) if len(states) > MAX_TILES else _rank_tiles(states, by_rank)
    return join(legend, tag("div", *blocks, class_="tiles-of-ranks"))


def _rank_tiles(states: dict[int, str], by_rank: dict[int, dict[str, Any]]) -> list[Html]:
    stages: dict[str, dict[str, list[Html]]] = defaultdict(lambda: defaultdict(list))
    for rank in sorted(states):
        at = (by_rank.get(rank) or {}).get("coordinates") or {}
        stage = f"pp {at['pp']}" if "pp" in at else ""
        row = " ".join(f"{axis} {index}" for axis, index in at.items() if axis not in ("pp", "tp"))
        row = row or (f"ranks {rank // 16 * 16} to {rank // 16 * 16 + 15}" if len(states) > 16 else "")
        stages[stage][row].append(_tile(rank, states[rank], by_rank.get(rank) or {}))
    return [
        tag("div", tag("h3", stage) if stage else None,
            *(tag("div", tag("span", row, class_="row-name") if row else None, *tiles, class_="mesh-row")
              for row, tiles in rows.items()),
            class_="stage")
        for stage, rows in stages.items()
    ]  # fmt: skip


def _tile(rank: int, state: str, known: dict[str, Any]) -> Html:
    at = " ".join(f"{axis} {index}" for axis, index in (known.get("coordinates") or {}).items())
    host = f" on {known['host']}" if known.get("host") is not None else ""
    label = f"rank {rank}{host}{', ' + at if at else ''}: {MEANINGS[state]}"
    return tag("button", f"{rank}{LETTERS[state]}", type="button", class_=f"rank {state}", data_rank=rank, title=label)


def _host_tiles(states: dict[int, str], by_rank: dict[int, dict[str, Any]]) -> list[Html]:
    hosts: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(states):
        hosts[str((by_rank.get(rank) or {}).get("host", "host unknown"))].append(rank)
    tiles = []
    for host, ranks in sorted(hosts.items(), key=lambda pair: pair[1][0]):
        worst = min(ranks, key=lambda rank: (RANK_STATES.index(states[rank]), rank))
        state = states[worst]
        label = f"{host}, ranks {ranks[0]} to {ranks[-1]}: rank {worst} {MEANINGS[state]}"
        tiles.append(tag("button", f"{host[-8:]}{LETTERS[state]}", type="button", class_=f"rank host {state}",
                         data_rank=worst, title=label))  # fmt: skip
    return [tag("div", tag("p", f"a tile is a host of {len(hosts)}, in the state of its worst rank", class_="note"),
                tag("div", *tiles, class_="mesh-row"), class_="stage")]  # fmt: skip
