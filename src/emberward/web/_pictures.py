"""The pictures of a pre-flight and of a proof on our pages. What is drawn comes from `report`."""

from collections.abc import Mapping
from typing import Any

from emberward.report import Html, Picture, RunFolder, examined_pictures, join, preflight_pictures, read_json, tag

MAX_MEASURED = 40
NOT_EXAMINED = (
    "No profile was taken of this run (emberward profile RUN), and no examination of its machines lies here "
    "(emberward doctor --json, as doctor.json)."
)


def figure(picture: Picture) -> Html:
    """A picture with its title and the sentence that says what it shows."""
    return tag(
        "figure",
        tag("figcaption", tag("strong", picture.title), tag("p", picture.sentence, class_="note")),
        tag("div", picture.svg, class_="scroll", tabindex="0", role="region", aria_label=picture.title),
        class_="drawn",
    )


def preflight_part(folder: RunFolder) -> Html:
    """What was worked out before the launch, and how the first steps compared with it."""
    page = read_json(folder.preflight)
    drawn = () if page is None else preflight_pictures(page)
    if page is None or not drawn:
        return tag("p", "No pre-flight page was written: emberward train and check write one.", class_="empty")
    measured = [row for row in page.get("measured") or () if isinstance(row, Mapping)][:MAX_MEASURED]
    return join(tag("div", *map(figure, drawn), class_="pictures"), _measured(measured) if measured else None)


def _measured(rows: list[Mapping[str, Any]]) -> Html:
    header = [str(key).replace("_", " ") for key in rows[0]]
    body = [tag("tr", *(tag("td", _value(value)) for value in row.values())) for row in rows]
    return tag(
        "details",
        tag("summary", "held against the first steps"),
        tag("table", tag("thead", tag("tr", *(tag("th", each, scope="col") for each in header))), tag("tbody", *body)),
    )


def _value(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else value


def examined_part(folder: RunFolder) -> Html:
    """What the profiler found in the run, and what the doctor found on its machines."""
    profiled, examined = read_json(folder.profile), read_json(folder.examination)
    drawn = examined_pictures(profiled=profiled, examined=examined)
    if not drawn:
        return tag("p", NOT_EXAMINED, class_="empty")
    return tag("div", *map(figure, drawn), class_="pictures")
