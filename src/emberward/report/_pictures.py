"""Pictures of a pre-flight and of a proof as SVG: pure functions from values to text.

[Note: pictures]
The page of a run, ``check --html``, a notebook and the docs show the same pictures. Each comes with a sentence that
says what it shows, which is also its accessible name. Nothing is told by colour alone: works have rows of their own,
parts of a bar a title and a row of the table below. The colours are those of the page's charts, every text at least
4.5:1 on its ground (WCAG 2.1 AA), and follow the reader's light or dark theme. A document that cannot be believed has
no picture: what is drawn is read from a run's folder.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Finding, ranks_text
from emberward.report._markup import Html, join, tag
from emberward.report._progress import size_text

WIDTH = 960
LEFT = 72
MAX_ROWS = 64
"""Pipeline ranks that a picture shows; it says how many there are."""
MAX_TILES = 512
"""Ranks that the mesh shows one by one; of more, a bar a pipeline rank."""
MAX_NODES = 10
MAX_SPANS = 4096
WORKS = {"F": "forward", "B": "backward", "I": "backward, to the input", "W": "backward, to the weights"}
PARTS = (
    ("weight_bytes", "weights"),
    ("gradient_bytes", "gradients"),
    ("optimizer_bytes", "optimizer"),
    ("gathered_bytes", "gathered"),
    ("unsharded_gradient_bytes", "unsharded gradients"),
    ("activation_bytes", "activations"),
    ("buffer_bytes", "buffers"),
)
_LIGHT = "--panel:#fff;--text:#16191f;--note:#4f5968;--edge:#cdd3dc;--bad:#b3161b;" + "".join(
    f"--s{number}:{colour};"
    for number, colour in enumerate(
        ("#0068b5", "#b04a00", "#00735c", "#9c3587", "#7d5f00", "#5a48b8", "#a11b40", "#39424e"), start=1
    )
)
_DARK = "--panel:#171b21;--text:#e8ebf0;--note:#a3adbb;--edge:#343c48;--bad:#ff9089;" + "".join(
    f"--s{number}:{colour};"
    for number, colour in enumerate(
        ("#6cb6ff", "#ff9e57", "#4fd1ae", "#ec8fd6", "#e0c04c", "#b3a4ff", "#ff8fa8", "#c3ccd8"), start=1
    )
)
SHAPES_STYLE = (
    "svg.picture text{font:12px system-ui,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:var(--text)}"
    "svg.picture .note{fill:var(--note)}svg.picture .on{fill:var(--panel)}svg.picture .bad{fill:var(--bad)}"
    "svg.picture .code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    "svg.picture .middle{text-anchor:middle}svg.picture .end{text-anchor:end}"
    "svg.picture .box{fill:var(--panel);stroke:var(--edge)}svg.picture .odd{stroke:var(--bad);stroke-width:2}"
    "svg.picture .edge{stroke:var(--note);stroke-width:1.5;fill:none}svg.picture .head{fill:var(--note)}"
    "svg.picture .limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 3}"
    "svg.picture .line1{stroke:var(--s1);stroke-width:1.5;fill:none}"
    "svg.picture .grid{stroke:var(--edge);stroke-width:.5}"
    + "".join(f"svg.picture .s{number}{{fill:var(--s{number})}}" for number in range(1, 9))
)
"""What a page that holds pictures puts into its style; the page's own variables give the colours."""
ALONE_STYLE = (
    f"svg.picture{{{_LIGHT}background:var(--panel)}}"
    f"@media (prefers-color-scheme:dark){{svg.picture{{{_DARK}}}}}{SHAPES_STYLE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`svg` is drawn in the colours of the page around it; `sentence` says what it shows. `name` is fit for a file."""

    name: str
    title: str
    sentence: str
    svg: Html

    def _repr_html_(self) -> str:
        """For a notebook: the title, what the picture shows, and the picture."""
        return join(tag("strong", self.title), tag("p", self.sentence), Html(self.alone()))

    def alone(self) -> str:
        """The picture as a file of its own, light or dark as the reader's system is."""
        opening, _, rest = self.svg.partition(">")
        return f'{opening} xmlns="http://www.w3.org/2000/svg">{tag("style", Html(ALONE_STYLE))}{rest}'


def preflight_pictures(page: Mapping[str, Any]) -> tuple[Picture, ...]:
    """Schedule, mesh, memory and bytes of a pre-flight page's JSON; without those that it has no believable values for.

    See [Note: pictures].
    """
    pictures = []
    for draw in (schedule_picture, mesh_picture, memory_picture, traffic_picture):
        try:
            picture = draw(page)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            continue
        if picture is not None:
            pictures.append(picture)
    return tuple(pictures)


def svg_of(height: float, sentence: str, *children: Html | None) -> Html:
    return tag(
        "svg", *children, class_="picture", role="img", aria_label=sentence, viewBox=f"0 0 {WIDTH} {math.ceil(height)}",
        width="100%",
    )  # fmt: skip


def rect(x: float, y: float, width: float, height: float, class_: str, *children: Html | None) -> Html:
    return tag(
        "rect", *children, x=f"{x:.1f}", y=f"{y:.1f}", width=f"{max(width, 0.5):.1f}", height=f"{height:.1f}",
        class_=class_,
    )  # fmt: skip


def text_at(x: float, y: float, words: object, class_: str | None = None) -> Html:
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", class_=class_)


def _rows_of(page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [role for role in page["roles"] if isinstance(role, Mapping)][:MAX_ROWS]


# -- schedule --------------------------------------------------------------------------------------------------------


def schedule_picture(page: Mapping[str, Any]) -> Picture | None:
    """The schedule as pipeline ranks by time: forwards in a rank's upper row, backwards below. None without a pipeline.

    Stages are equal and transfers free, as `plan.spans_of` has it.
    """
    spans = [(int(rank), str(action), float(start), float(end)) for rank, action, start, end in page["spans"]]
    if not spans or len(spans) > MAX_SPANS:
        return None
    num_ranks = 1 + max(rank for rank, *_ in spans)
    whole = max(end for *_, end in spans)
    scale, height = (WIDTH - LEFT - 8) / whole, 46
    boxes = []
    for rank, action, start, end in spans:
        if rank >= MAX_ROWS:
            continue
        stage, work, mb = _action(action)
        x, y = LEFT + start * scale, rank * height + (4 if work == "F" else 23)
        number = 1 + tuple(WORKS).index(work)
        title = tag("title", f"pp {rank}: {WORKS[work]} of micro-batch {mb} in stage {stage}, {start:g} to {end:g}")
        boxes.append(rect(x + 0.5, y, (end - start) * scale - 1, 18, f"s{number}", title))
        if (end - start) * scale >= 9 * len(mb) + 4:
            boxes.append(text_at(x + (end - start) * scale / 2, y + 13, mb, "on middle"))
    shown = min(num_ranks, MAX_ROWS)
    labels = [text_at(0, rank * height + 26, f"pp {rank}") for rank in range(shown)]
    used = [work for work in WORKS if any(_action(action)[1] == work for _, action, *_ in spans)]
    y, x, legend = shown * height + 20, float(LEFT), []
    for work in used:
        legend += [rect(x, y - 11, 14, 14, f"s{1 + tuple(WORKS).index(work)}"), text_at(x + 20, y, WORKS[work])]
        x += 40 + 7.0 * len(WORKS[work])
    legend.append(text_at(x, y, "a number is a micro-batch; backwards in the lower row", "note"))
    idle = 100 * float(page["bubble"])
    sentence = (
        f"Schedule {page['schedule']}: {num_ranks} pipeline ranks, {page['num_mb']} micro-batches, {whole:g} forwards "
        f"long, idle {idle:.1f}% with equal stages and free transfers."
    )
    if num_ranks > shown:
        sentence += f" The first {shown} ranks are shown."
    return Picture(
        name="schedule", title="Schedule", sentence=sentence, svg=svg_of(y + 10, sentence, *labels, *boxes, *legend)
    )


def _action(text: str) -> tuple[str, str, str]:
    """Stage, work and micro-batch of ``2F0``."""
    work = next(letter for letter in text if letter in WORKS)
    stage, _, mb = text.partition(work)
    return str(int(stage)), work, str(int(mb))


# -- mesh ------------------------------------------------------------------------------------------------------------


def mesh_picture(page: Mapping[str, Any]) -> Picture | None:
    """Which ranks and layers each pipeline rank has, and on how many hosts. None without ranks."""
    roles, seats = _rows_of(page), list(page["seats"])
    if not roles or not seats:
        return None
    by_stage: dict[int, list[Mapping[str, Any]]] = {}
    for seat in seats:
        by_stage.setdefault(int(seat["coordinates"].get("pp", 0)), []).append(seat)
    y, shapes = 4.0, []
    for role in roles:
        stage = int(role["pp_rank"])
        members = by_stage.get(stage, [])
        layers = _layers_text(role["layers"])
        shapes += [text_at(0, y + 14, f"pp {stage}"), text_at(0, y + 29, layers, "note")]
        left = LEFT + 70
        if len(seats) <= MAX_TILES and members:
            across = (WIDTH - left) // 44
            for number, seat in enumerate(members):
                x, top = left + number % across * 44, y + number // across * 26
                shapes += [
                    rect(x, top, 40, 22, "box", tag("title", _seat_text(seat))),
                    text_at(x + 20, top + 15, seat["rank"], "middle"),
                ]
            y += max(26 * -(-len(members) // across), 36) + 6
        else:
            count = int(role["num_ranks"])
            shapes += [rect(left, y, WIDTH - left - 1, 22, "box"), text_at(left + 8, y + 15, f"{count:,} ranks")]
            y += 42
    axes: dict[str, set[int]] = {}
    for seat in seats:
        for axis, at in seat["coordinates"].items():
            axes.setdefault(str(axis), set()).add(int(at))
    sizes = [f"{axis} {len(found)}" for axis, found in axes.items() if len(found) > 1]
    hosts = {seat["host"] for seat in seats if seat.get("host") is not None}
    where = f" on {len(hosts)} host{'s' if len(hosts) > 1 else ''}" if hosts else ""
    ranks = "1 rank" if page["num_ranks"] == 1 else f"{int(page['num_ranks']):,} ranks"
    layout = f", {' x '.join(sizes)}" if sizes else ""
    sentence = f"Mesh: {ranks}{where}{layout}."
    return Picture(name="mesh", title="Mesh and stages", sentence=sentence, svg=svg_of(y, sentence, *shapes))


def _layers_text(layers: Sequence[Sequence[int]]) -> str:
    shown = [f"{first}-{stop - 1}" if stop - first > 1 else f"{first}" for first, stop in layers if stop > first]
    return f"layers {' + '.join(shown)}" if shown else "no layers"


def _seat_text(seat: Mapping[str, Any]) -> str:
    at = ", ".join(f"{axis} {index}" for axis, index in seat["coordinates"].items())
    host = "" if seat.get("host") is None else f" on {seat['host']}"
    return f"rank {seat['rank']}{host}{': ' + at if at else ''}"


# -- memory ----------------------------------------------------------------------------------------------------------


def memory_picture(page: Mapping[str, Any]) -> Picture | None:
    """What a rank of each pipeline rank holds at its peak, part by part, against the device's memory where known."""
    roles = _rows_of(page)
    if not roles:
        return None
    totals = [int(role["memory"]["total_bytes"]) for role in roles]
    device = None if page["memory_gib"] is None else float(page["memory_gib"]) * 2**30
    whole = max([*totals, device or 0, 1])
    scale, shapes = (WIDTH - LEFT - 110) / whole, []
    for row, (role, total) in enumerate(zip(roles, totals, strict=True)):
        y, x = row * 30.0 + 4, float(LEFT)
        shapes.append(text_at(0, y + 15, f"pp {role['pp_rank']}"))
        for number, (key, name) in enumerate(PARTS, start=1):
            width = int(role["memory"].get(key, 0)) * scale
            if width > 0:
                title = tag("title", f"pp {role['pp_rank']}: {name} {size_text(int(role['memory'][key]))}")
                shapes.append(rect(x, y, width, 22, f"s{number}", title))
                if width > 7 * len(name) + 8:
                    shapes.append(text_at(x + 5, y + 15, name, "on"))
                x += width
        is_over = device is not None and total > device
        shapes.append(text_at(x + 6, y + 15, size_text(total) + (" does not fit" if is_over else ""),
                            "bad" if is_over else None))  # fmt: skip
    y = len(roles) * 30.0 + 4
    if device is not None:
        at = LEFT + device * scale
        shapes += [
            tag("line", x1=f"{at:.1f}", x2=f"{at:.1f}", y1="0", y2=f"{y:.1f}", class_="limit"),
            text_at(min(at, WIDTH - 4), y + 14, f"device {size_text(int(device))}", "end bad"),
        ]
        y += 20
    x, y = float(LEFT), y + 16
    for number, (key, name) in enumerate(PARTS, start=1):
        if any(role["memory"].get(key) for role in roles):
            shapes += [rect(x, y - 11, 14, 14, f"s{number}"), text_at(x + 20, y, name)]
            x += 44 + 6.6 * len(name)
    fullest = max(range(len(roles)), key=totals.__getitem__)
    sentence = f"Memory: the fullest is pp {roles[fullest]['pp_rank']} with {size_text(totals[fullest])} a rank"
    if device is not None:
        room = int(device) - totals[fullest]
        fits = f"{size_text(room)} are left" if room >= 0 else f"{size_text(-room)} too much"
        sentence += f"; a device has {size_text(int(device))}: {fits}"
    return Picture(
        name="memory", title="Memory of a rank", sentence=f"{sentence}.", svg=svg_of(y + 10, f"{sentence}.", *shapes)
    )


# -- bytes -----------------------------------------------------------------------------------------------------------


def traffic_picture(page: Mapping[str, Any]) -> Picture | None:
    """What a rank of each pipeline rank sends in a step, group by group. None when nothing is sent."""
    rows = [(role, row) for role in _rows_of(page) for row in role["traffic"]][:MAX_ROWS]
    whole = max((int(row["sent_bytes"]) for _, row in rows), default=0)
    if not whole:
        return None
    groups = list(dict.fromkeys(str(row["group"]) for _, row in rows))
    scale, shapes, before = (WIDTH - LEFT - 470) / whole, [], None
    for number, (role, row) in enumerate(rows):
        y, sent, group = number * 24.0 + 4, int(row["sent_bytes"]), str(row["group"])
        if role["pp_rank"] != before:
            before = role["pp_rank"]
            shapes.append(text_at(0, y + 13, f"pp {before}"))
        calls = "1 call" if row["num_calls"] == 1 else f"{int(row['num_calls']):,} calls"
        text = f"{size_text(sent)} in {calls} by {row['by']}, {int(row['num_ranks']):,} ranks"
        shapes += [
            text_at(LEFT, y + 13, group),
            rect(LEFT + 60, y, sent * scale, 18, f"s{1 + groups.index(group) % 8}"),
            text_at(LEFT + 68 + sent * scale, y + 13, text),
        ]
    most_role, most = max(rows, key=lambda pair: int(pair[1]["sent_bytes"]))
    sentence = (
        f"Bytes a rank sends in a step: most over {most['group']}, {size_text(int(most['sent_bytes']))} "
        f"on pp {most_role['pp_rank']}."
    )
    return Picture(
        name="traffic",
        title="Bytes a rank sends in a step",
        sentence=sentence,
        svg=svg_of(len(rows) * 24 + 8, sentence, *shapes),
    )


# -- witness ---------------------------------------------------------------------------------------------------------


def witness_picture(finding: Finding, *, lines: Mapping[str, str] | None = None) -> Picture | None:
    """Who waits for whom: the members of a cycle with their lines, or who waits for the culprit. None for neither.

    `lines` holds the code at a site, as ``train.py:41``, where it is known.
    """
    nodes, edges = _graph(finding, lines or {})
    if not edges:
        return None
    count, wide, high = len(nodes), 290.0, 84.0
    if count <= 3:
        centres = [((number + 0.5) * WIDTH / count, high / 2 + 30) for number in range(count)]
        height = high + 64
    else:
        height = 2 * high + 60.0 * count
        centres = [
            (
                WIDTH / 2 - math.cos(2 * math.pi * number / count) * (WIDTH - wide) / 2.05,
                height / 2 - math.sin(2 * math.pi * number / count) * (height - high) / 2.1,
            )
            for number in range(count)
        ]
    arrows = [_arrow(centres[source], centres[target], wide, high, number) for number, (source, target)
              in enumerate(edges)]  # fmt: skip
    boxes = []
    for (x, y), (is_odd, words) in zip(centres, nodes, strict=True):
        boxes.append(rect(x - wide / 2, y - high / 2, wide, high, "box odd" if is_odd else "box"))
        for row, (text, class_) in enumerate(words):
            boxes.append(text_at(x - wide / 2 + 10, y - high / 2 + 19 + 18 * row, shortened(text), class_))
    sentence = f"Who waits for whom: {finding.message}"
    return Picture(
        name=f"witness-{finding.code}",
        title=f"{finding.code}: who waits for whom",
        sentence=sentence,
        svg=svg_of(height, sentence, *arrows, *boxes),
    )


_Node = tuple[bool, list[tuple[str, str | None]]]


def _graph(finding: Finding, lines: Mapping[str, str]) -> tuple[list[_Node], list[tuple[int, int]]]:
    """Nodes with their words, and which waits for which."""

    def words(who: str, doing: str, site: str | None) -> list[tuple[str, str | None]]:
        found = [(who, None), (doing, "note")]
        if site is not None:
            found += [(site, "code note")] + ([(lines[site], "code")] if site in lines else [])
        return found

    if finding.cycle:
        shown = finding.cycle[:MAX_NODES]
        at = {member.rank: number for number, member in enumerate(shown)}
        nodes: list[_Node] = [(True, words(f"rank {each.rank}", each.op, each.site)) for each in shown]
        edges = [(at[each.rank], at[other]) for each in shown for other in each.waits_for if other in at]
        return nodes, [(source, target) for source, target in edges if source != target]
    if finding.culprit_ranks and finding.waiting_ranks:
        return [
            (False, words(ranks_text(finding.waiting_ranks), "wait" if len(finding.waiting_ranks) > 1 else "waits",
                          None)),
            (True, words(ranks_text(finding.culprit_ranks), finding.cause.value.replace("_", " "), finding.site)),
        ], [(0, 1)]  # fmt: skip
    return [], []


def shortened(text: str, *, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 16]}...{text[-13:]}"


def _arrow(source: tuple[float, float], target: tuple[float, float], wide: float, high: float, number: int) -> Html:
    """An arrow between the borders of two boxes; the one back lies beside it."""
    (x, y), (to_x, to_y) = source, target
    across, down = to_x - x, to_y - y
    length = math.hypot(across, down) or 1.0
    aside_x, aside_y = -down / length * 14, across / length * 14
    reach = min(
        wide / 2 / abs(across / length) if across else math.inf, high / 2 / abs(down / length) if down else math.inf
    )
    first = (x + across / length * reach + aside_x, y + down / length * reach + aside_y)
    last = (to_x - across / length * (reach + 9) + aside_x, to_y - down / length * (reach + 9) + aside_y)
    tip = (last[0] + across / length * 9, last[1] + down / length * 9)
    wing_x, wing_y = -down / length * 5, across / length * 5
    points = [tip, (last[0] + wing_x, last[1] + wing_y), (last[0] - wing_x, last[1] - wing_y)]
    return join(
        tag("line", tag("title", f"edge {number + 1}: waits for"), x1=f"{first[0]:.1f}", y1=f"{first[1]:.1f}",
            x2=f"{last[0]:.1f}", y2=f"{last[1]:.1f}", class_="edge"),
        tag("polygon", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in points), class_="head"),
    )  # fmt: skip
