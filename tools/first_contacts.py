"""The table of first contacts in docs/measured/README.md: one for each kind of set, from the files that are kept."""

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Sequence[object]


def _of(part: object, whole: object) -> str:
    return f"{part} of {whole}"


def _lens(said: Mapping[str, Any]) -> Row:
    num = said["planted"]
    accused = _of(said["accused_falsely"], said["look_alikes"])
    return _of(said["cause_and_line_right"], num), _of(said["cause_right"], num), accused


def _judged(said: Mapping[str, Any]) -> Row:
    faults, others = said["faults"], said["look_alikes"]
    parts = (_of(faults[each], faults["num"]) for each in ("ranks", "cause", "line"))
    return f"{_of(said['points'], said['of'])}, {100 * said['share']:.0f}%", *parts, _of(others["quiet"], others["num"])


def _scripts(said: Mapping[str, Any]) -> Row:
    wrong, right = said["wrong_scripts"], said["right_scripts"]
    parts = (_of(wrong[each], wrong["num"]) for each in ("ranks", "cause", "line"))
    return f"{_of(said['points'], said['of'])}, {100 * said['share']:.0f}%", *parts, _of(right["quiet"], right["num"])


def _probes(said: Mapping[str, Any]) -> Row:
    right = (_of(said[f"{each}_right"], said[each]) for each in ("faulty", "healthy"))
    return *right, said["machines_with_false_accusations"]


def _predictions(rows: Sequence[Mapping[str, Any]]) -> Row:
    errors = [each["error"] for each in rows if each.get("error") is not None]
    within = sum(abs(error) <= 0.25 for error in errors)
    return (
        _of(len(errors), len(rows)),
        f"{100 * statistics.median(map(abs, errors)):.1f}%",
        f"{_of(within, len(errors))}, {100 * within / len(errors):.0f}%",
        sum(error < 0 for error in errors),
    )


_JUDGED = ("points", "ranks", "cause", "line", "right ones quiet")
KINDS: dict[str, tuple[str, Row, Callable[[Mapping[str, Any]], Row]]] = {
    "scripts": ("Scripts under `emberward check`", _JUDGED, _scripts),
    "live": ("Programs under `emberward run`", _JUDGED, _judged),
    "artefacts": ("Files under `emberward explain`", _JUDGED, _judged),
    "lens": (
        "Programs under `emberward profile`",
        ("cause and line right", "cause right", "look-alikes accused"),
        _lens,
    ),
    "probes": (
        "Simulated machines under `emberward doctor`",
        ("faulty right", "healthy right", "machines with false accusations"),
        _probes,
    ),
    "predictions": (
        "Published runs beside predictions (`predictions_4`: with a share learnt from runs, decision 0016)",
        ("predicted", "median error", "within 25%", "too fast"),
        lambda value: _predictions(value["rows"]),
    ),
}
"""By the first word of a set's name: what it is, the columns, and what of a file's summary stands in them."""


def tables(folder: Path) -> Iterator[str]:
    """The lines of all tables. Raises KeyError for a kind of set that none is known for."""
    files = sorted(folder.glob("*.json"), key=lambda path: [*map(int, re.findall(r"\d+", path.stem))])
    known: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in files:
        known[path.stem.partition("_")[0]].append(path)
    for kind, (title, columns, row_of) in KINDS.items():
        yield from (
            "",
            f"### {title}",
            "",
            f"| set | {' | '.join(map(str, columns))} | met |",
            "|---" * len(columns) + "|---|---|",
        )
        for path in known[kind]:
            value = json.loads(path.read_text(encoding="utf-8"))
            said = value if kind == "predictions" else _summary(value["what"])
            cells = " | ".join(map(str, row_of(said)))
            yield f"| [{path.stem}](first_contact/{path.name}) | {cells} | {value['round']['began'][:10]} |"


def _summary(what: str) -> Any:
    """The JSON object in the words of a file."""
    return json.JSONDecoder().raw_decode(what[what.index("{") :])[0]
