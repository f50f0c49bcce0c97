"""The page in a real browser: what a person reads, and that nothing of a run's text is executed.

`make test-window` installs Chromium and axe-core and runs this; elsewhere the tests need both to be there.
"""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from canned_runs import HANG, append_line, make, metrics_of, preflight_page, write_lag, write_metrics

from emberward.findings import CycleMember
from emberward.report import read_glance
from emberward.supervise._overseer import end_announcement
from emberward.web import Columns, PageServer, Site, file_page, proof_page
from emberward.web._list import key_of

KINDS = ("healthy", "hang", "straggler", "spike", "restart", "large", "hostile", "empty", "corrupt")
PICTURES = Path("build/window")
SHOWN = ("card", "straggler", "restart", "phone", "list", "compare", "check-light")
"""Pictures that the docs show: `make pictures` writes them to docs/pictures as well."""
AXE = Path("build/axe/package/axe.min.js")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    PICTURES.mkdir(parents=True, exist_ok=True)
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def keep(browser, name):
    """Keeps what is seen, in docs/pictures too where that was asked for."""
    browser.picture(PICTURES / f"{name}.png")
    if name in SHOWN and os.environ.get("EMBERWARD_PICTURES"):
        browser.picture(Path(os.environ["EMBERWARD_PICTURES"]) / f"{name}.png")


@contextmanager
def live_server(root, *, port=0):
    """A server of the runs below `root` until the block ends, which cuts the streams of its pages."""
    server = PageServer(Site(runs=root, only=None, facts=lambda *_: (False, ())), "127.0.0.1", port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    folders = {kind: make(kind, root, now_unix=time.time()) for kind in KINDS}
    with live_server(root) as server:
        yield f"http://127.0.0.1:{server.port}", folders


def page_of(site, kind):
    address, folders = site
    return f"{address}/run/{key_of(folders[kind])}/"


@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        ("healthy", "RUNNING", ["Healthy: nothing stands against this run."]),
        ("hang", "STALLED", ["ERROR H101", "rank 5 reads a file at data.py:88 and has not joined all_reduce 211",
                             "rank 5 (node-01, pp 1 dp 0 tp 1) at data.py:88", "7 wait: ranks 0-4, 6, 7",
                             "a dead rank: all 8 processes live", "emberward explain 4242"]),
        ("straggler", "RUNNING", ["WARNING H140", "rank 3 is waited for in every step: 180 ms of 0.500 s (36.0%)"]),
        ("spike", "RUNNING", ["Healthy"]),
        ("restart", "RUNNING", ["A later attempt got over 1 earlier finding."]),
        ("large", "RUNNING", ["WARNING H140"]),
        ("hostile", "STALLED", ["<img src=x onerror="]),
        ("empty", "NOT STARTED", ["No incident was recorded."]),
        ("corrupt", "RUNNING", ["Healthy"]),
    ],
)  # fmt: skip
def test_the_first_screen_says_how_a_run_stands(browser, site, kind, state, words):
    browser.open(page_of(site, kind))
    assert browser.text(".state").replace("■", "").strip().lstrip("●✖○✔◔ ").startswith(state)
    card = browser.text("#part-card")
    for word in words:
        assert word in card
    # The page's own words come first on the screen: the card begins above the fold.
    assert browser.run("return document.querySelector('#part-card').getBoundingClientRect().top") < 400
    keep(browser, "card" if kind == "hang" else kind)
    assert browser.run("return document.title") != "owned"
    assert browser.console() == []


def audit(browser):
    """What axe-core finds against the open page."""
    browser.run(AXE.read_text(encoding="utf-8"))
    return browser.run(
        "return axe.run({runOnly: {type: 'tag', values: arguments[0]}}).then(all => all.violations.map("
        "each => each.id + ' ' + each.nodes.slice(0, 3).map(node => node.target.join(' ')).join('; ')))",
        RULES,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser, site, kind, scheme):
    browser.open(page_of(site, kind))
    browser.run("document.documentElement.dataset.theme = arguments[0]", scheme)
    assert audit(browser) == []


def test_a_spike_of_one_step_is_drawn_with_its_step_and_value(browser, site):
    browser.open(page_of(site, "spike"))
    browser.run("document.querySelector('#chart-loss').focus()")
    said = browser.run(
        "const chart = document.querySelector('#chart-loss');"
        "for (let i = 0; i < 200; i++) {"
        " chart.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));"
        " const text = document.querySelector('#reading-loss').textContent;"
        " if (text.startsWith('step 90:')) return text; } return null"
    )
    assert said is not None
    assert "9.75" in said


def test_the_map_shows_the_rank_that_is_waited_for(browser, site):
    browser.open(page_of(site, "straggler"))
    browser.wait("document.querySelector('#lag-map canvas')")
    rows = browser.run(
        "const c = document.querySelector('#lag-map canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, out = [];"
        "for (let y = 0; y < c.height; y++) { let sum = 0;"
        " for (let x = 0; x < c.width; x++) sum += d[4 * (y * c.width + x) + 1]; out.push(sum / c.width); } return out"
    )
    assert int(np.argmax(rows)) == 3
    assert "Rank 3 was last most often: in 120 of the newest 120" in browser.text("#lag-words")


def test_the_map_of_many_ranks_stands_host_by_host_and_names_the_worst_of_a_row(browser, site):
    browser.open(page_of(site, "large"))
    browser.wait("document.querySelector('#lag-map canvas')")
    names = browser.run("return [...document.querySelectorAll('.hosts span')].map(each => each.textContent)")
    assert names[:2] == ["node-00", "node-04"] and len(names) > 20
    assert browser.run("return document.querySelector('#lag-map canvas').height") == 512
    browser.run("document.querySelector('#lag-map').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))")
    assert browser.text("#lag-words").startswith("ranks 2 to 3 on node-00, rank 3 the most, step 120: 3")
    browser.run("document.querySelector('#lag-map').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
    browser.wait("document.querySelector('#drawer-title')?.innerText === 'Rank 3'")


def test_a_step_s_time_is_shown_by_phase_and_goodput_in_its_tile(browser, site):
    browser.open(page_of(site, "healthy"))
    phases = ["update", "exchange with other ranks", "backward", "forward", "waiting for data"]
    legend = browser.run(
        "return [...document.querySelectorAll('#chart-time .legend li')].map(each => each.textContent)"
    )
    assert legend == ["the step, saves apart", *phases]
    assert "; forward 0.15 s; backward 0.275 s; exchange" in browser.text("#reading-time")
    # The backward's band lies above the forward's, each in its own colour.
    assert (
        browser.run("""
      const c = document.querySelector('#chart-time canvas'), d = c.getContext('2d'), x = c.width * .6 | 0;
      const at = (share) => d.getImageData(x, c.height * share | 0, 1, 1).data.slice(0, 3).join();
      return new Set([.75, .45].map(at)).size""")
        == 2
    )
    browser.wait("/goodput\\n\\d+\\.\\d%\\nof 5 min/.test(document.querySelector('#part-tiles').innerText)")


def test_a_chart_without_values_takes_no_room(browser, site):
    shown = "return [...document.querySelectorAll('.chart-panel')].filter(each => each.checkVisibility()).length"
    browser.open(page_of(site, "corrupt"))
    assert browser.run(shown) == 1, "it has the losses of two steps, and nothing else"
    browser.open(page_of(site, "healthy"))
    assert browser.run(shown) == 4


def test_the_announced_end_of_a_job_counts_down(browser, tmp_path):
    folder = make("hang", tmp_path, now_unix=time.time())
    said = end_announcement(HANG, 60.0, now_unix=time.time())
    append_line(folder.findings, {**said.to_json(), "attempt": 1})
    with live_server(tmp_path) as server:
        browser.open(f"http://127.0.0.1:{server.port}/run/{key_of(folder)}/")
        browser.wait("/is ended in 5[0-8] s, unless/.test(document.querySelector('#part-card').innerText)")
        browser.run("document.querySelector('[data-until]').dataset.until = 1")
        browser.wait("document.querySelector('#part-card').innerText.includes('is ended now, unless')")
        browser.go("about:blank")


def test_a_rank_s_drawer_opens_by_key_and_closes(browser, site):
    browser.open(page_of(site, "hang"))
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'r'}))")
    browser.wait("!document.querySelector('#drawer').hidden")
    assert browser.text("#drawer-title") == "Rank 5"
    assert "rank 5 last issued all_reduce 210" in browser.text("#drawer")
    assert "device\nCPU" in browser.text("#drawer")
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    browser.wait("document.querySelector('#drawer').hidden")


def test_a_live_page_shows_new_steps_and_a_new_incident_by_itself(browser, tmp_path):
    folder = make("healthy", tmp_path, now_unix=time.time())
    with live_server(tmp_path) as server:
        browser.open(f"http://127.0.0.1:{server.port}/run/{key_of(folder)}/")
        browser.wait("+document.body.dataset.ticks > 0")
        write_metrics(folder, [metrics_of(step, steps=200) for step in range(121, 124)])
        browser.wait("document.querySelector('#part-tiles').innerText.includes('123')")
        append_line(folder.findings, {**HANG.to_json(), "attempt": 1})
        browser.wait("document.querySelector('#part-card').innerText.includes('ERROR H101')")
        write_lag(folder, 8, range(121, 124), slow=3)
        browser.wait("document.querySelector('#lag-words').innerText.includes('newest 123')")
        browser.run("window.stop(); location.href = 'about:blank'")


def test_of_eight_tabs_none_is_left_waiting_for_a_connection(tmp_path):
    """A browser opens six connections to one server: a tab that is not seen must hold none."""
    folder = make("healthy", tmp_path, now_unix=time.time())
    browser = Browser(tmp_path / "browser")
    with live_server(tmp_path) as server:
        tabs = [browser.new_tab() for _ in range(8)]
        for tab in tabs:
            browser.to_tab(tab)
            browser.open(f"http://127.0.0.1:{server.port}/run/{key_of(folder)}/")
            browser.wait("+document.body.dataset.ticks > 0")
        write_metrics(folder, [metrics_of(121, steps=200)])
        for tab in reversed(tabs):
            browser.to_tab(tab)
            browser.wait("document.querySelector('#part-tiles').innerText.includes('121')")
        browser.close()


@contextmanager
def ui_process(folder, *, port=0):
    """``emberward ui`` of a run until the block ends, which kills it."""
    command = [sys.executable, "-m", "emberward", "ui", str(folder.path), "--port", str(port), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield json.loads(child.stdout.readline())["port"]
        finally:
            child.kill()


def test_a_page_whose_server_was_killed_has_every_step_once_when_it_is_back(browser, tmp_path):
    folder = make("healthy", tmp_path, now_unix=time.time())
    with ui_process(folder) as port:
        browser.open(f"http://127.0.0.1:{port}/run/{key_of(folder)}/")
        browser.wait("+document.body.dataset.ticks > 0")
        write_metrics(folder, [metrics_of(121, steps=200)])
        browser.wait("document.querySelector('#part-tiles').innerText.includes('121')")
    browser.wait("document.querySelector('#link').classList.contains('lost')")
    write_metrics(folder, [metrics_of(step, steps=200) for step in range(122, 126)])
    with ui_process(folder, port=port):
        browser.wait("document.querySelector('#part-tiles').innerText.includes('125')")
        browser.wait("!document.querySelector('#link').classList.contains('lost')")
        assert browser.steps_drawn() == list(range(125, 0, -1))
        browser.go("about:blank")
    # What it could not reach meanwhile is no error of the next test's page.
    said = browser.console()
    assert [each for each in said if "net::ERR_" not in each] == []


@pytest.mark.parametrize("kind", ["hang", "large", "hostile"])
def test_the_file_opens_from_disk_and_shows_the_same_card(browser, site, tmp_path, kind):
    _, folders = site
    columns = Columns(folders[kind])
    columns.poll()
    path = tmp_path / "page.html"
    path.write_text(file_page(read_glance(folders[kind], now_unix=time.time()), columns), encoding="utf-8")
    browser.open(page_of(site, kind))
    served = browser.text("#part-card").replace("runbook", "").split()
    browser.open(f"file://{path}")
    assert browser.text("#part-card").split() == served
    assert browser.run("return document.querySelectorAll('.chart canvas').length") == 4
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return document.title") != "owned"
    browser.run("document.querySelector('.rank').click()")
    browser.wait("!document.querySelector('#drawer').hidden")
    assert browser.console() == []


def test_a_phone_shows_state_age_and_whose_fault_it_is_without_scrolling(browser, site):
    browser.open(page_of(site, "hang"), width=390, height=844)
    assert browser.run("return innerWidth === 390 && document.documentElement.scrollWidth <= innerWidth")
    # Who it was is read without scrolling; so is the whole card on a screen of 1280 x 800.
    assert browser.run("return document.querySelector('.row.who').getBoundingClientRect().bottom") < 844
    keep(browser, "phone")


def test_the_list_and_a_comparison(browser, site, tmp_path):
    address, folders = site
    browser.open(page_of(site, "hang"))
    assert browser.run("return document.querySelector('.card').getBoundingClientRect().bottom") < 800
    browser.go(f"{address}/list")
    browser.wait("document.querySelector('tbody tr')")
    assert "stalled" in browser.text("tbody tr")
    shown = tmp_path / "runs"
    for kind in ("healthy", "restart", "hang", "straggler"):
        make(kind, shown, now_unix=time.time())
    with live_server(shown) as server:
        browser.go(f"http://127.0.0.1:{server.port}/list")
        assert HANG.message in browser.text("tbody tr"), "who needs a person comes first, and says why"
        keep(browser, "list")
        browser.go("about:blank")
    browser.open(f"{address}/compare?run={key_of(folders['healthy'])}&run={key_of(folders['spike'])}")
    assert "step 90" in browser.text(".verdict")
    keep(browser, "compare")
    for axis in ("tokens", "hours"):
        browser.run(f"document.querySelector('input[value={axis}]').click()")
        browser.wait(f"document.body.dataset.axis === '{axis}' && !!document.querySelector('#chart-loss canvas')")
    assert audit(browser) == []
    assert browser.console() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_check_opens_from_disk_and_is_accessible(browser, tmp_path, theme):
    cycle = tuple(CycleMember(rank=rank, op="recv", site=f"tiny.py:{41 + rank}", waits_for=(1 - rank,))
                  for rank in (0, 1))  # fmt: skip
    deadlock = replace(HANG, code="M104", cycle=cycle, culprit_ranks=(), waiting_ranks=())
    checked = {"findings": [deadlock.to_json()], "proved": False, "preflight": preflight_page(), "num_ranks": 8}
    file = tmp_path / "check.html"
    file.write_text(proof_page("bloom_tiny", checked, lines={"tiny.py:41": "dist.recv(x, src=1)"}))
    browser.go(file.as_uri())
    browser.run(f"document.documentElement.dataset.theme = '{theme}'")
    browser.wait("document.querySelectorAll('svg.picture').length === 5")
    # Texts lie inside their pictures, and those of the schedule on their own boxes.
    assert browser.run("""
      return [...document.querySelectorAll('svg.picture')].every(svg => { const a = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].every(text => { const b = text.getBoundingClientRect();
          return b.left >= a.left - 1 && b.right <= a.right + 1 && b.bottom <= a.bottom + 1; }); })""")
    assert "PROVED" not in browser.text("header")
    assert audit(browser) == []
    keep(browser, f"check-{theme}")
