"""Pictures of what was measured: a series by step, what the profiler found, the doctor's links.

See [Note: pictures].
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from emberward.report._markup import tag
from emberward.report._pictures import MAX_ROWS, WIDTH, Picture, rect, shortened, svg_of, text_at

MAX_LINKED = 64
"""Devices of a link matrix."""


def stalls_picture(document: Mapping[str, Any]) -> Picture | None:
    """Milliseconds that each finding of ``emberward profile --json`` costs a step, the dearest first. None without one.

    Raises as a document does that cannot be believed; `examined_pictures` leaves such a picture out.
    """
    rows = [
        (float(each["cost_ms_per_step"]), f"{each['cause'].replace('_', ' ')}  {each['site'] or ''}", each["code"])
        for each in document["findings"]
        if each.get("cost_ms_per_step")
    ]
    rows = sorted(rows, key=lambda row: -row[0])[:MAX_ROWS]
    if not rows:
        return None
    step_ms = document["profile"]["step_ms"]
    whole, left = max(rows[0][0], float(step_ms or 0.0)), 340.0
    scale, shapes = (WIDTH - left - 190) / whole, []
    for number, (cost, where, code) in enumerate(rows):
        y = number * 24.0 + 4
        share = f", {100 * cost / step_ms:.1f}%" if step_ms else ""
        shapes += [
            text_at(0, y + 13, f"{code}  {shortened(where)}"),
            rect(left, y, cost * scale, 18, "s2"),
            text_at(left + cost * scale + 6, y + 13, f"{cost:.3g} ms{share}"),
        ]
    of = f" of {step_ms:.4g} ms" if step_ms else ""
    sentence = f"Lost in a step{of}: most to {rows[0][1].strip()}, {rows[0][0]:.3g} ms."
    return Picture(
        name="stalls", title="Where a step's time is lost", sentence=sentence,
        svg=svg_of(len(rows) * 24 + 8, sentence, *shapes),
    )  # fmt: skip


def links_picture(document: Mapping[str, Any]) -> Picture | None:
    """How much slower each link between two devices is than its ends explain, by ``emberward doctor --json``.

    A slow link has a thick border and its share in the cell, so that no colour tells it alone. None without numbers of
    pairs; the probe with the most is shown, its first MAX_LINKED devices.
    """
    numbers = max(document["numbers"], key=lambda each: len(each["cells"]), default=None)
    if numbers is None or not numbers["cells"]:
        return None
    devices = list(dict.fromkeys(end for cell in numbers["cells"] for end in cell["link"]))
    order = [device for device in document["devices"] if device in devices][:MAX_LINKED]
    place = {device: number for number, device in enumerate(order)}
    side, left, top = min(40.0, (WIDTH - 180) / max(len(order), 1)), 170.0, 24.0
    shapes = [text_at(left - 8, top + (number + 0.6) * side, device, "end note") for device, number in place.items()]
    shapes += [text_at(left + (number + 0.5) * side, top - 8, number, "middle note") for number in range(len(order))]
    slow = []
    for cell in numbers["cells"]:
        ends = [place[end] for end in cell["link"] if end in place]
        if len(ends) != 2:
            continue
        is_slow, share = cell["is"] == "slow", 100 * float(cell["slow_by"])
        value = f"{float(cell['value']):.4g} {numbers['unit']}, {share:.1f}% slower: {cell['is']}"
        if is_slow:
            slow.append((share, " to ".join(cell["link"])))
        for row, column in (ends, ends[::-1]):
            x, y = left + column * side, top + row * side
            title = tag("title", f"{' to '.join(cell['link'])}: {value}")
            shapes.append(rect(x + 1, y + 1, side - 2, side - 2, "box odd" if is_slow else "box", title))
            if is_slow and side >= 30:
                shapes.append(text_at(x + side / 2, y + side / 2 + 4, f"{share:.0f}%", "middle bad"))
    slow.sort(reverse=True)
    said = f"{len(slow)} slow, most {slow[0][1]} by {slow[0][0]:.0f}%" if slow else "none slow beyond the noise"
    sentence = f"Links by probe {numbers['probe']}: {len(numbers['cells'])} pairs of {len(devices)} devices, {said}."
    height = top + len(order) * side + 8
    return Picture(name="links", title="Links", sentence=sentence, svg=svg_of(height, sentence, *shapes))


def examined_pictures(*, profiled: Mapping[str, Any] | None, examined: Mapping[str, Any] | None) -> tuple[Picture, ...]:
    """The pictures of the documents of ``profile --json`` and ``doctor --json``; without what cannot be believed."""
    pictures = []
    for draw, document in ((stalls_picture, profiled), (links_picture, examined)):
        try:
            picture = None if document is None else draw(document)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            continue
        if picture is not None:
            pictures.append(picture)
    return tuple(pictures)


def lines_picture(
    name: str,
    steps: Sequence[int],
    values: Sequence[float | None],
    *,
    least: Sequence[float | None] | None = None,
    greatest: Sequence[float | None] | None = None,
) -> Picture | None:
    """A value by step; None without two values.

    None among `values` is a gap. `least` and `greatest` of each stretch of steps are drawn as a band behind the line.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return None
    bounds = [value for value in (*known, *(least or ()), *(greatest or ())) if value is not None]
    low, high = min(bounds), max(bounds)
    height, top, left = 220.0, 10.0, 76.0
    room = WIDTH - left - 10
    wide = max(steps[-1] - steps[0], 1)

    def at(step: int, value: float) -> str:
        down = (high - value) / (high - low) if high > low else 0.5
        return f"{left + (step - steps[0]) / wide * room:.1f},{top + down * (height - 40):.1f}"

    runs: list[list[str]] = [[]]
    for step, value in zip(steps, values, strict=True):
        if value is None or not math.isfinite(value):
            runs.append([])
        else:
            runs[-1].append(at(step, value))
    shapes = []
    if least is not None and greatest is not None:
        pairs = [(s, a, b) for s, a, b in zip(steps, least, greatest, strict=True) if a is not None and b is not None]
        ring = [at(s, b) for s, _, b in pairs] + [at(s, a) for s, a, _ in reversed(pairs)]
        shapes.append(tag("polygon", points=" ".join(ring), class_="s1", opacity="0.25"))
    for points in filter(None, runs):
        if len(points) == 1:
            x, _, y = points[0].partition(",")
            shapes.append(tag("circle", cx=x, cy=y, r="2.5", class_="s1"))
        else:
            shapes.append(tag("polyline", points=" ".join(points), class_="line1"))
    ticks = (low, (low + high) / 2, high) if high > low else (low,)
    for tick in ticks:
        down = float(at(steps[0], tick).partition(",")[2])
        shapes += [
            tag("line", x1=f"{left}", x2=f"{WIDTH - 10}", y1=f"{down}", y2=f"{down}", class_="grid"),
            text_at(left - 8, down + 4, f"{tick:.4g}", "end note"),
        ]
    shapes += [
        text_at(left, height - 8, f"step {steps[0]:,}", "note"),
        text_at(WIDTH - 10, height - 8, f"{steps[-1]:,}", "end note"),
    ]
    last = known[-1]
    sentence = f"{name} of steps {steps[0]:,} to {steps[-1]:,}: {low:.4g} to {high:.4g}, last {last:.4g}."
    return Picture(name=name, title=name.replace("_", " "), sentence=sentence, svg=svg_of(height, sentence, *shapes))
