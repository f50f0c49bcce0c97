"""The server: what it serves, to whom, and what a page gets that was cut off."""

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from canned_runs import BAD, HANG, START, make, metrics_of, write_metrics

from emberward.report import append_line
from emberward.web import LOOPBACK, PageServer, Site
from emberward.web._list import key_of

NOW = START + 3600


@contextmanager
def served(root: Path, **more):
    server = PageServer(
        Site(runs=root, only=None, facts=lambda *_: (False, ()), clock=lambda: NOW, **more), "127.0.0.1", 0
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def get(server, path, **headers):
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    link.request("GET", path, headers=headers)
    answer = link.getresponse()
    body = answer.read().decode()
    link.close()
    return answer, body


class Stream:
    """The events of a run, read one at a time."""

    def __init__(self, server, folder, last=None):
        self._link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self._link.request(
            "GET", f"/run/{key_of(folder)}/events", headers={} if last is None else {"Last-Event-ID": last}
        )
        self._answer = self._link.getresponse()
        assert self._answer.getheader("Content-Type", "").startswith("text/event-stream")

    def next(self):
        """The next event: its id and its body."""
        event = {}
        while True:
            line = self._answer.readline().decode()
            assert line, "the stream ended"
            if line == "\n" and "data" in event:
                return event["id"], json.loads(event["data"])
            name, _, value = line.rstrip("\n").partition(": ")
            event[name] = value

    def close(self):
        self._link.close()


def test_a_failed_run_that_was_started_again_stands_below_the_run_that_goes_on(tmp_path):
    failed = make("healthy", tmp_path, now_unix=NOW)
    append_line(failed.attempts, {"event": "end", "attempt": 1, "outcome": "failed", "why": "rank 1 died"})
    again = make("healthy", tmp_path / "other", now_unix=NOW + 60)
    moved = failed.path.parent / "20261122-100000-0000"
    again.path.rename(moved)
    make("straggler", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, "/")
    assert body.index(moved.name) < body.index(failed.id)
    assert "<title>0 of 3 runs need you" in body
    alone = make("restart", tmp_path, now_unix=NOW)
    append_line(alone.attempts, {"event": "end", "attempt": 2, "outcome": "failed", "why": "rank 1 died"})
    with served(tmp_path) as server:
        _, body = get(server, "/")
    assert body.index("restart/") < body.index(moved.name)
    assert "<title>1 of 4 runs need you" in body


def test_a_head_is_answered_as_a_get_without_its_body(tmp_path):
    folder = make("healthy", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        for path in ("/", "/nothing", f"/run/{key_of(folder)}/", f"/run/{key_of(folder)}/events"):
            link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            link.request("HEAD", path)
            head = link.getresponse()
            assert head.read() == b""
            link.close()
            if not path.endswith("events"):
                whole, body = get(server, path)
                assert (head.status, head.getheader("Content-Length")) == (whole.status, str(len(body.encode())))


def test_the_list_puts_first_what_needs_a_person(tmp_path):
    for kind in ("healthy", "hang", "empty", "corrupt"):
        make(kind, tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, "/")
    rows = [line for line in body.split("<tr>") if "/run" in line or "run/" in line]
    assert "stalled" in rows[0]
    assert len(rows) == 4


def test_a_run_s_page_has_the_card_in_words_and_its_policy_allows_no_inline_script(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        answer, body = get(server, f"/run/{key_of(folder)}/")
    assert "rank 5 reads a file at data.py:88 and has not joined all_reduce 211; 7 ranks wait for it" in body
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/asset/../_server.py",
        "/asset/%2e%2e/app.js",
        "/asset//etc/passwd",
        "/run/0123456789abcdef/",
        "/run/../hang/",
        "/run/KEY/../series",
        "/run/KEY/findings.jsonl",
        "/run/KEY/runbook?code=../../etc",
        "//evil.example/",
    ],
)
def test_only_known_names_are_served(tmp_path, path):
    folder = make("hang", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        answer, body = get(server, path.replace("KEY", key_of(folder)))
    assert answer.status == 404
    assert "root:" not in body


def test_a_link_out_of_the_folder_is_not_followed_as_a_ring(tmp_path):
    folder = make("healthy", tmp_path / "runs", now_unix=NOW)
    rings = folder.events / "attempt-0001"
    rings.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret words")
    (rings / "rank00000-1.ring").symlink_to(tmp_path / "secret")
    with served(tmp_path / "runs") as server:
        answer, body = get(server, f"/run/{key_of(folder)}/rank?rank=0")
    assert answer.status == 200
    assert "none is there" in body


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("", 421)]
)
def test_a_request_under_a_foreign_name_is_refused(tmp_path, host, status):
    with served(tmp_path) as server:
        answer, _ = get(server, "/", Host=host)
    assert answer.status == status


def test_without_the_token_nothing_is_shown_and_with_it_a_cookie_is_set(tmp_path):
    make("hang", tmp_path, now_unix=NOW)
    with served(tmp_path, token="right", hosts=LOOPBACK) as server:
        for path in ("/", "/?token=wrong", "/list", "/asset/app.js"):
            answer, body = get(server, path)
            assert (answer.status, "hang" in body) == (403, False)
        answer, _ = get(server, "/?token=right")
        cookie = answer.getheader("Set-Cookie") or ""
        assert answer.status == 303
        assert "token" not in (answer.getheader("Location") or "")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        answer, body = get(server, "/", Cookie=cookie.partition(";")[0])
    assert (answer.status, "hang" in body) == (200, True)


def test_a_stream_gives_every_step_once_over_a_cut(tmp_path):
    folder = make("healthy", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, f"/run/{key_of(folder)}/series")
        had = json.loads(body)
        stream = Stream(server, folder, had["id"])
        _, first = stream.next()
        assert set(first["parts"]) >= {"head", "tiles", "card", "strip", "mesh", "findings", "attempts", "saves"}
        write_metrics(folder, [metrics_of(step, steps=200) for step in (121, 122)])
        at, news = stream.next()
        got = list(news["points"]["step"])
        stream.close()
        write_metrics(folder, [metrics_of(step, steps=200) for step in (123, 124, 125)])
        again = Stream(server, folder, at)
        while got[-1] != 125:
            _, news = again.next()
            assert not news.get("reset")
            got += (news.get("points") or {"step": []})["step"]
        again.close()
    assert got == [121, 122, 123, 124, 125]
    assert had["step"][-1] == 120


def test_a_server_that_was_started_again_goes_on_and_a_cut_file_resets(tmp_path):
    folder = make("healthy", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, f"/run/{key_of(folder)}/series")
    at = json.loads(body)["id"]
    write_metrics(folder, [metrics_of(121, steps=200)])
    with served(tmp_path) as server:
        stream = Stream(server, folder, at)
        _, news = stream.next()
        assert (news["points"]["step"], news.get("reset")) == ([121], None)
        lines = folder.metrics.read_text().splitlines(keepends=True)
        folder.metrics.write_text("".join(lines[:50]) + json.dumps(metrics_of(51, steps=200)) + "\n")
        _, news = stream.next()
        stream.close()
    assert news["reset"] is True


def test_a_run_that_goes_away_while_it_is_looked_at_breaks_nothing(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        stream = Stream(server, folder)
        stream.next()
        folder.path.rename(tmp_path / "gone")
        stream.next()
        stream.close()
        assert get(server, f"/run/{key_of(folder)}/")[0].status == 200
        assert get(server, f"/run/{key_of(folder)}/rank?rank=5")[0].status == 200


def test_a_drawer_shows_the_end_of_a_log_of_any_bytes(tmp_path):
    folder = make("hostile", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, f"/run/{key_of(folder)}/rank?rank=0")
    assert "<img" not in body
    assert "<script" not in body
    assert "&lt;img" in body
    assert len(body) < 200_000


@pytest.mark.parametrize("kind", ["healthy", "hang", "straggler", "spike", "restart", "hostile", "empty", "corrupt"])
def test_every_kind_of_run_has_a_page_without_a_foreign_tag(tmp_path, kind):
    folder = make(kind, tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        answers = [get(server, f"/run/{key_of(folder)}/{path}") for path in ("", "page.html", "series", "lag")]
    assert [answer.status for answer, _ in answers] == [200] * 4
    for _, body in answers[:2]:
        assert "<img" not in body
        assert BAD not in body
    assert len(answers[1][1].encode()) < 1_000_000


def test_two_runs_are_compared_to_the_last_bit(tmp_path):
    first = make("healthy", tmp_path, now_unix=NOW)
    second = make("spike", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        _, body = get(server, f"/compare?run={key_of(first)}&run={key_of(second)}")
        _, same = get(server, f"/compare?run={key_of(first)}&run={key_of(first)}")
        refused, _ = get(server, f"/compare?run={key_of(first)}")
    assert "The losses differ first at step 90." in body
    boot = json.loads(body.partition('id="boot">')[2].partition("</script>")[0])
    rows = [json.loads(line) for line in first.metrics.read_text().splitlines()]
    tokens = sum(row["step_s"] * row["tokens_per_s"] for row in rows)
    assert boot["series"][0]["tokens"][-1] == pytest.approx(tokens, rel=1e-6)
    assert boot["series"][0]["hours"][-1] == pytest.approx(sum(row["step_s"] for row in rows) / 3600, rel=1e-6)
    assert boot["series"][0]["hours"] == sorted(boot["series"][0]["hours"])
    assert "bit for bit" in same
    assert refused.status == 400


def test_a_runbook_page_has_the_section_of_its_code(tmp_path):
    folder = make("hang", tmp_path, now_unix=NOW)
    with served(tmp_path) as server:
        answer, body = get(server, f"/run/{key_of(folder)}/runbook?code=H101")
        missing, _ = get(server, f"/run/{key_of(folder)}/runbook?code=<script>")
    assert answer.status == 200
    assert "H101" in body
    assert "SIGCONT" in body or "stopped" in body
    assert missing.status == 404


def test_the_server_says_which_findings_the_folder_does_not_have(tmp_path):
    folder = make("healthy", tmp_path, now_unix=NOW)
    said = replace(HANG, code="L110", message="nobody watches the run")
    with served(tmp_path) as server:
        server.site = replace(server.site, facts=lambda *_: (True, (said,)))
        _, body = get(server, f"/run/{key_of(folder)}/")
    assert "LAUNCHER DIED" in body
    assert "nobody watches the run" in body
