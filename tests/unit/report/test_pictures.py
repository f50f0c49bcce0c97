"""Pictures of a pre-flight and of a proof: what they say, where it stands, and what is not drawn.

``PYTHONPATH=tests python -m unit.report.test_pictures`` writes those of the docs again.
"""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from canned_runs import HANG, preflight_page

import emberward.web
from emberward.findings import CycleMember
from emberward.plan import bubble_of, gpipe, one_f_one_b, spans_of
from emberward.recipe import load_recipe, resolve
from emberward.report import (
    ALONE_STYLE,
    examined_pictures,
    preflight,
    preflight_json,
    preflight_pictures,
    witness_picture,
)
from emberward.report._pictures import PARTS


@pytest.fixture(scope="module")
def page():
    return preflight_page()


def drawn(page, name):
    (picture,) = [each for each in preflight_pictures(page) if each.name == name]
    return picture, ET.fromstring(picture.alone().replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def titles(svg):
    return [title.text for title in svg.iter("title")]


def words(svg):
    return [text.text for text in svg.iter("text")]


@pytest.mark.parametrize("schedule", [gpipe(4, 8), one_f_one_b(4, 8)], ids=["gpipe", "1f1b"])
def test_spans_keep_each_rank_in_order_and_leave_the_bubble_idle(schedule):
    spans = spans_of(schedule)
    for rank in range(4):
        own = [each for each in spans if each.pp_rank == rank]
        assert [each.action for each in own] == list(schedule.orders[rank])
        assert all(before.end <= after.start for before, after in pairwise(own))
    whole = max(each.end for each in spans)
    busy = sum(each.end - each.start for each in spans)
    assert 1 - busy / (4 * whole) == pytest.approx(bubble_of(schedule))


def test_the_schedule_shows_every_compute_at_its_time(page):
    picture, svg = drawn(page, "schedule")
    assert len(titles(svg)) == len(page["spans"]) == 2 * 4 * 8
    boxes = {rect.find("title").text: rect for rect in svg.iter("rect") if rect.find("title") is not None}
    first = boxes["pp 0: forward of micro-batch 0 in stage 0, 0 to 1"]
    back = next(box for title, box in boxes.items() if title.startswith("pp 0: backward of micro-batch 0"))
    assert float(back.get("x")) > float(first.get("x"))
    assert float(back.get("y")) > float(first.get("y")), "a backward has a row of its own: not told by colour alone"
    assert float(back.get("width")) == pytest.approx(2 * float(first.get("width")), abs=1.5)
    assert "idle 27.3%" in picture.sentence
    assert svg.get("aria-label") == picture.sentence
    assert max(float(box.get("x")) + float(box.get("width")) for box in boxes.values()) <= 960


def test_mesh_memory_and_bytes_say_what_the_page_says(page):
    picture, svg = drawn(page, "mesh")
    assert picture.sentence == "Mesh: 8 ranks on 2 hosts, pp 4 x tp 2."
    assert next(title for title in titles(svg) if title.startswith("rank 5 on b: pp 2,")).endswith("tp 1")
    assert {str(rank) for rank in range(8)} <= set(words(svg))
    picture, svg = drawn(page, "memory")
    assert "a device has 80.00 GiB" in picture.sentence
    assert "weights" in words(svg)
    held = sum(1 for role in page["roles"] for key, _ in PARTS if role["memory"][key])
    assert len(titles(svg)) == held
    picture, svg = drawn(page, "traffic")
    assert "most over tp" in picture.sentence
    assert len([text for text in words(svg) if " by " in text]) == sum(len(role["traffic"]) for role in page["roles"])


def test_a_device_that_is_too_small_is_said(page):
    picture, svg = drawn({**page, "memory_gib": 0.001}, "memory")
    assert "too much" in picture.sentence
    assert any("does not fit" in text for text in words(svg))


def test_what_cannot_be_believed_or_would_say_nothing_is_not_drawn(page):
    assert preflight_pictures({}) == ()
    assert preflight_pictures({key: "<script>" for key in page}) == ()
    alone = load_recipe("bloom_tiny", ["layout.dp=1", "layout.pp=1", "layout.tp=1"])
    flat = preflight_json(preflight(resolve(alone, num_ranks=1, tokenizer_size=257)))
    assert [each.name for each in preflight_pictures(flat)] == ["mesh", "memory"]
    hostile = {**page, "schedule": "</svg><script>alert(1)</script>"}
    assert "<script" not in "".join(each.svg for each in preflight_pictures(hostile))


def test_many_ranks_become_bars(page):
    seats = [{"rank": rank, "coordinates": {"pp": rank // 256}, "host": None} for rank in range(1024)]
    roles = [{**role, "num_ranks": 256} for role in page["roles"]]
    _, svg = drawn({**page, "seats": seats, "roles": roles, "num_ranks": 1024}, "mesh")
    assert words(svg).count("256 ranks") == 4


def test_the_witness_of_a_cycle_has_its_members_lines_and_arrows():
    cycle = tuple(
        CycleMember(rank=rank, op=f"recv from {1 - rank}", site=f"tiny.py:{41 + rank}", waits_for=(1 - rank,))
        for rank in (0, 1)
    )
    finding = replace(HANG, cycle=cycle, culprit_ranks=(), waiting_ranks=())
    picture = witness_picture(finding, lines={"tiny.py:41": "dist.recv(x, src=1)"})
    svg = ET.fromstring(picture.svg)
    assert {"rank 0", "rank 1", "tiny.py:41", "tiny.py:42", "dist.recv(x, src=1)"} <= set(words(svg))
    assert len(list(svg.iter("line"))) == len(list(svg.iter("polygon"))) == 2
    assert len({polygon.get("points") for polygon in svg.iter("polygon")}) == 2
    ring = tuple(CycleMember(rank=rank, op="recv", site=None, waits_for=((rank + 1) % 6,)) for rank in range(6))
    svg = ET.fromstring(witness_picture(replace(finding, cycle=ring)).svg)
    boxes = [(float(rect.get("x")), float(rect.get("y"))) for rect in svg.iter("rect")]
    height = float(svg.get("viewBox").split()[3])
    assert len(set(boxes)) == 6
    assert all(0 <= x <= 960 - 290 and 0 <= y <= height - 84 for x, y in boxes)


def test_who_waits_for_a_culprit_is_a_picture_and_a_finding_without_either_is_none():
    svg = ET.fromstring(witness_picture(HANG).svg)
    assert {"ranks 0-4, 6, 7", "rank 5", "data.py:88", "file read"} <= set(words(svg))
    assert witness_picture(replace(HANG, culprit_ranks=())) is None


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_on_every_ground_has_the_contrast_of_aa(theme):
    variables = dict(re.findall(r"--(\w+):(#\w+);", re.findall(r"svg\.picture\{([^}]*)\}", ALONE_STYLE)[theme]))
    ground = luminance(variables["panel"])
    for name in ("text", "note", "bad", *(f"s{number}" for number in range(1, 9))):
        other = luminance(variables[name])
        assert (max(ground, other) + 0.05) / (min(ground, other) + 0.05) >= 4.5, name


def test_a_picture_alone_has_the_colours_of_the_page():
    css = (Path(emberward.web.__file__).parent / "static" / "app.css").read_text()
    for name, colour in re.findall(r"--(\w+):(#\w+);", ALONE_STYLE):
        assert re.search(rf"--{name}: {colour}\b", css), name


STALL = {"code": "P105", "cause": "item", "site": "train.py:31", "cost_ms_per_step": 12.5}
LINKS = {
    "devices": ["a:0", "a:1", "b:0"],
    "numbers": [{"probe": "pair", "unit": "GB/s", "cells": [
        {"link": ["a:0", "a:1"], "value": 9.1, "slow_by": 0.01, "is": "within noise"},
        {"link": ["a:0", "b:0"], "value": 3.0, "slow_by": 0.62, "is": "slow"},
    ]}],
}  # fmt: skip


def test_what_the_profiler_and_the_doctor_wrote_is_drawn():
    cheap = {**STALL, "cause": "print", "cost_ms_per_step": 0.5}
    profiled = {"findings": [cheap, STALL, {**STALL, "cost_ms_per_step": None}], "profile": {"step_ms": 50.0}}
    stalls, links = examined_pictures(profiled=profiled, examined=LINKS)
    svg = ET.fromstring(stalls.svg)
    assert words(svg) == ["P105  item  train.py:31", "12.5 ms, 25.0%", "P105  print  train.py:31", "0.5 ms, 1.0%"]
    widths = [float(rect.get("width")) for rect in svg.iter("rect")]
    assert widths[0] == pytest.approx(25 * widths[1], rel=0.02)
    svg = ET.fromstring(links.svg)
    assert links.sentence == "Links by probe pair: 2 pairs of 3 devices, 1 slow, most a:0 to b:0 by 62%."
    assert words(svg).count("62%") == 2
    assert [rect.get("class") for rect in svg.iter("rect")] == ["box", "box", "box odd", "box odd"]
    assert {"a:0", "a:1", "b:0"} <= set(words(svg))


def test_a_profile_or_examination_that_cannot_be_believed_is_not_drawn():
    assert examined_pictures(profiled=None, examined=None) == ()
    assert examined_pictures(profiled={"findings": []}, examined={"numbers": []}) == ()
    assert examined_pictures(profiled={"findings": [1]}, examined={"numbers": [{"cells": [{}]}], "devices": 3}) == ()


DOCS = Path(__file__).parents[3] / "docs" / "pictures"


def docs_pictures():
    """The text of each picture in the docs by its path."""
    cycle = (
        CycleMember(rank=0, op="recv grad mb 0 from rank 1", site="recipes/tiny.py:41", waits_for=(1,)),
        CycleMember(rank=1, op="recv activation mb 0 from rank 0", site="recipes/tiny.py:44", waits_for=(0,)),
    )
    message = "ranks 0 and 1 wait in a cycle of 2 lines"
    deadlock = replace(HANG, code="M104", cycle=cycle, culprit_ranks=(), waiting_ranks=(), message=message)
    lines = {"recipes/tiny.py:41": "grad = pipe.recv(1)", "recipes/tiny.py:44": "x = pipe.recv(0)"}
    drawn = (*preflight_pictures(preflight_page()), witness_picture(deadlock, lines=lines))
    return {DOCS / f"{picture.name}.svg": picture.alone() + "\n" for picture in drawn}


def test_the_docs_have_the_pictures_that_the_code_draws():
    for path, text in docs_pictures().items():
        assert path.read_text() == text, path.name


if __name__ == "__main__":
    for path, text in docs_pictures().items():
        path.write_text(text)
