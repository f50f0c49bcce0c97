"""Readers beside a writer: whole lines only, whole files only."""

import json
import os

from hypothesis import given
from hypothesis import strategies as st

from emberward.report import LineTail, append_line, read_json, read_lines, tail_text, write_json
from emberward.report import _read as reading


def test_a_half_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tail = LineTail(path)
    assert tail.poll() == []
    path.write_bytes(b'{"step": 1}\n{"step": 2')
    assert tail.poll() == [{"step": 1}]
    assert tail.poll() == []
    with path.open("ab") as file:
        file.write(b'2}\n{"step":')
    assert tail.poll() == [{"step": 22}]


LINES = [{"step": n, "text": "zwölf|ten"} for n in range(4)]
BYTES = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in LINES)


@given(cuts=st.lists(st.integers(0, len(BYTES)), max_size=12))
def test_however_the_bytes_come_each_line_is_given_once_and_whole(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("tail") / "lines.jsonl"
    tail, found, at = LineTail(path), [], 0
    for cut in [*sorted(cuts), len(BYTES)]:
        with path.open("ab") as file:
            file.write(BYTES[at:cut])
        at = cut
        found += tail.poll()
    assert found == LINES


def test_every_prefix_of_a_file_is_read_without_an_error_and_without_a_false_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    for size in range(len(BYTES) + 1):
        path.write_bytes(BYTES[:size])
        assert list(read_lines(path)) == LINES[: BYTES[:size].count(b"\n")]


def test_lines_that_are_no_objects_are_left_out(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'7\n[1]\nnull\n{"a": 1\n\xff\xfe\n\n{"step": 5}\n')
    assert list(read_lines(path)) == [{"step": 5}]
    assert list(read_lines(tmp_path / "missing")) == []


def test_a_file_that_was_cut_or_replaced_is_read_again_from_its_start(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    tail = LineTail(path)
    assert len(tail.poll()) == 2
    path.write_text('{"step": 3}\n')
    assert tail.poll() == [{"step": 3}]
    temporary = tmp_path / "aside"
    temporary.write_text('{"step": 4}\n{"step": 5}\n{"step": 6}\n')
    temporary.replace(path)
    assert [line["step"] for line in tail.poll()] == [4, 5, 6]


def test_from_the_end_gives_only_what_comes(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"step": 1}\n')
    tail = LineTail(path, from_end=True)
    assert tail.poll() == []
    append_line(path, {"step": 2})
    assert tail.poll() == [{"step": 2}]


def test_a_poll_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_POLL_BYTES", 30)
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f'{{"step": {n}}}\n' for n in range(9)))
    tail = LineTail(path)
    assert [line["step"] for line in tail.poll()] == [0, 1]
    assert [line["step"] for line in read_lines(path)] == list(range(9))


def test_every_prefix_of_a_json_file_is_absent_or_whole(tmp_path):
    path = tmp_path / "summary.json"
    data = json.dumps({"outcome": "done", "evals": {"a": 1.5}}).encode()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert read_json(path) is None
    path.write_bytes(data)
    assert read_json(path) == {"outcome": "done", "evals": {"a": 1.5}}
    assert read_json(tmp_path / "missing") is None
    assert read_json(tmp_path) is None


def test_a_list_or_a_huge_file_is_no_object(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("[1, 2]")
    assert read_json(path) is None
    path.write_text(json.dumps({"a": "b" * 100}))
    monkeypatch.setattr(reading, "MAX_JSON_BYTES", 50)
    assert read_json(path) is None


def test_writing_leaves_the_new_file_alone(tmp_path):
    path = tmp_path / "progress.json"
    write_json(path, {"step": 1})
    write_json(path, {"step": 2})
    assert read_json(path) == {"step": 2}
    assert os.listdir(tmp_path) == ["progress.json"]  # noqa: PTH208 (names alone)


def test_a_line_after_a_cut_line_is_whole(tmp_path):
    path = tmp_path / "attempts.jsonl"
    append_line(path, {"event": "start"})
    with path.open("ab") as file:
        file.write(b'{"event": "e')
    append_line(path, {"event": "end"})
    assert list(read_lines(path)) == [{"event": "start"}, {"event": "end"}]


def test_the_tail_of_a_log_is_bounded_and_starts_where_the_attempt_did(tmp_path):
    path = tmp_path / "rank.log"
    path.write_bytes(b"old 1\nold 2\n")
    began = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"new 1\nnew \xff 2\n")
    assert tail_text(path, num_lines=20, since_byte=began) == ["new 1", "new � 2"]
    assert tail_text(path, num_lines=1) == ["new � 2"]
    assert tail_text(path, num_lines=9, max_bytes=8) == ["new � 2"]
    assert tail_text(tmp_path / "missing", num_lines=3) == []
