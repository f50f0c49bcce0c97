"""The page of a check: the terminal's words, a picture of who waits, and no script."""

import hashlib
import json
import re

import pytest
from canned_runs import BAD, HANG, make, preflight_page

from emberward.cli._check_page import lines_at, write_check_page
from emberward.cli._console import Screen
from emberward.report import read_glance, write_json
from emberward.web import Columns, file_page, proof_page


def checked(*findings, **more):
    screen = Screen(is_json=False)
    screen.document(findings, **({"proved": not findings, "num_ranks": 8, "assumptions": ["lanes run"]} | more))
    return json.loads(json.dumps(screen.written))


def test_a_proved_recipe_has_its_verdict_and_pictures():
    text = proof_page("bloom_tiny", checked(preflight=preflight_page()), lines={})
    assert "PROVED: every call of every rank ends" in text
    assert text.count('<svg class="picture"') == 4
    assert "lanes run" in text
    assert "<script" not in text
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    digest = re.search(r"style-src 'sha256-([^']+)'", text)
    assert digest is not None
    assert hashlib.sha256(style.encode()).digest().hex() == __import__("base64").b64decode(digest[1]).hex()


def test_an_error_has_its_card_and_its_witness_with_the_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.py").write_text("\n" * 87 + "    file.read()\n")
    assert lines_at(checked(HANG)) == {"data.py:88": "file.read()"}
    screen = Screen(is_json=False)
    screen.document([HANG], proved=False)
    write_check_page("train.py", tmp_path / "page.html", screen)
    text = (tmp_path / "page.html").read_text()
    assert "NOT SAFE: an error was found" in text
    assert HANG.message in text
    assert "file.read()" in text
    assert "page.html" in capsys.readouterr().out


def test_what_was_not_all_examined_is_not_called_proved_and_markup_is_inert():
    text = proof_page(BAD, checked(proved=False, not_examined=[BAD]), lines={})
    assert "NO ERROR in what was examined" in text
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.parametrize(("kind", "count"), [("healthy", 4), ("corrupt", 0)])
def test_the_page_of_a_run_shows_its_pre_flight(tmp_path, kind, count):
    folder = make(kind, tmp_path)
    columns = Columns(folder)
    columns.poll()
    text = file_page(read_glance(folder, now_unix=1.0), columns)
    assert text.count('<svg class="picture"') == count


def test_the_page_of_a_run_shows_what_profiler_and_doctor_left(tmp_path):
    folder = make("hang", tmp_path)
    stall = {"code": "P105", "cause": "item", "site": "train.py:31", "cost_ms_per_step": 12.5}
    folder.lens.mkdir()
    write_json(folder.profile, {"findings": [stall], "profile": {"step_ms": 50.0}})
    columns = Columns(folder)
    text = file_page(read_glance(folder, now_unix=1.0), columns)
    assert "most to item  train.py:31, 12.5 ms" in text
