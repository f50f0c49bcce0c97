"""The page as one file, and what it is made of."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from canned_runs import START, make

import emberward.web
from emberward.report import json_block, read_glance, tag
from emberward.web import Columns, file_page
from emberward.web._page import file_policy

NOW = START + 3600
VENDOR = Path(emberward.web.__file__).parent / "vendor"


def page(folder):
    columns = Columns(folder)
    columns.poll()
    return file_page(read_glance(folder, now_unix=NOW), columns)


def test_the_file_has_the_card_of_the_terminal_without_any_script(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    card = read_glance(folder, now_unix=NOW).card
    assert card is not None
    text = re.sub(r"<script.*?</script>", "", page(folder), flags=re.DOTALL)
    shown = re.sub(r"<[^>]+>", "\n", text)
    for _, lines in card.rows:
        for line in lines:
            assert line in shown


def test_the_file_asks_for_nothing_and_runs_its_own_script_alone(tmp_path):
    text = page(make("healthy", tmp_path, now_unix=NOW))
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(script) == 1
    style = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    assert len(style) == 1
    assert file_policy(script[0], style[0]) in text
    assert not re.search(r"\b(src|href)=\"(?!#)", text)
    assert "default-src 'none'" in text


def test_a_curve_that_the_program_logged_says_whose_it_is(tmp_path):
    folder = make("empty", tmp_path, now_unix=NOW)
    rows = [{"step": step, "loss": 2.5, "curve": "loss, in <b>.csv, by step"} for step in range(9)]
    folder.logged.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = page(folder)
    assert "the program's own log: loss, in &lt;b&gt;.csv, by step" in text
    assert "as the program logged it" in text


def test_a_large_run_fits_into_a_ticket(tmp_path):
    assert len(page(make("large", tmp_path, now_unix=NOW)).encode()) < 1_000_000


def test_one_door_escapes():
    made = tag("p", "<b>&\x1b", tag("i", "x"), title='"><script>')
    assert made == '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;\\x1b<i>x</i></p>'
    block = json_block({"a": "</script><script>"}, id="b")
    assert block.count("<") == 2
    assert json.loads(block.split(">", 1)[1].rsplit("<", 1)[0]) == {"a": "</script><script>"}


@pytest.mark.parametrize("path", sorted(VENDOR.glob("*/vendor.json")), ids=lambda path: path.parent.name)
def test_vendored_files_are_those_of_the_release(path):
    said = json.loads(path.read_text())
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in path.parent.iterdir() if each != path}
    assert found == said["sha256"]
    assert said["license"] in path.with_name("LICENSE").read_text()
