"""The exact text of each code, and its look-alike that passes. Snapshots are re-blessed by hand, after reading them."""

import json
from pathlib import Path

import pytest
from unit.match.scenes import wrong_and_right

from emberward.findings import CATALOGUE, Finding
from emberward.match import check, explain

SNAPSHOTS = Path(__file__).parent / "snapshots"
SCENES = wrong_and_right()


@pytest.mark.parametrize("code", sorted(SCENES))
def test_the_message_is_the_one_that_was_reviewed(code: str):
    text = explain(check(SCENES[code][0])) + "\n"
    path = SNAPSHOTS / f"{code}.txt"
    assert path.exists(), f"no snapshot for {code}; the text is now:\n{text}"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", sorted(SCENES))
def test_the_trace_has_exactly_its_code_and_the_look_alike_none(code: str):
    wrong, right = SCENES[code]
    found = {finding.code for finding in check(wrong).findings}
    assert code in found
    assert found <= {code, "M108"} if code != "M105" else found == {"M105"}
    verdict = check(right)
    assert verdict.is_safe and not verdict.findings, explain(verdict)


def test_every_code_of_this_room_has_a_scene():
    assert sorted(SCENES) == [f"M10{k}" for k in range(1, 9)]
    assert set(SCENES) <= set(CATALOGUE)


@pytest.mark.parametrize("code", sorted(SCENES))
def test_findings_survive_their_json_form(code: str):
    for finding in check(SCENES[code][0]).findings:
        assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding
