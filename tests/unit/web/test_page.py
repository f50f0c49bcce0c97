"""The page as one file, and what it is made of."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from canned_runs import HANG, START, make, start

import emberward.web
from emberward.report import CardFacts, card_of, json_block, read_glance, tag
from emberward.web import Columns, file_page
from emberward.web._fragments import card_html
from emberward.web._list import compare_page
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


def test_a_comparison_names_the_versions_and_the_values_that_differ(tmp_path):
    first, second = (make("empty", tmp_path / name) for name in ("a", "b"))
    for folder, torch, steps in ((first, "2.12.0", 200), (second, "2.13.0", 300)):
        start(folder, 1, num_ranks=8, versions={"torch": torch, "numpy": "2.4.6"})
        folder.config.write_text(f"name: x\nsteps: {steps}\n")
    page = compare_page(first, Columns(first), second, Columns(second))
    cells = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", page)
    assert cells == [("steps", "200", "300"), ("version of torch", "2.12.0", "2.13.0")]


@pytest.mark.parametrize(
    ("line", "copied", "remark"),
    [
        ("emberward explain 4242", "emberward explain 4242", None),
        (
            "emberward watch a/b --ack H125   (the job goes on then)",
            "emberward watch a/b --ack H125",
            "the job goes on then",
        ),
        ("kill -CONT 17, or end the job", "kill -CONT 17", "or end the job"),
        ("'/my disk/emberward' ui RUN", "&#x27;/my disk/emberward&#x27; ui RUN", None),
        ("compare clocks, heat and other users of node-00", None, None),
        ("make ranks 0 and 1 exchange the sizes that this call uses", None, None),
    ],
)
def test_what_can_be_pasted_is_copied_without_its_remark(line, copied, remark):
    shown = card_html(card_of(replace(HANG, next=line), CardFacts()), runbooks=False)
    found = re.search(r'class="row do">.*?</dd>', shown)[0]
    assert (re.findall(r'data-copy="([^"]*)"', found) or [None])[0] == copied
    assert (re.findall(r'class="note">([^<]*)<', found) or [None])[0] == remark
