"""Of a run's folder that several attempts wrote into, the last one is explained."""

import json

import pytest

from emberward.findings import Cause
from emberward.report import RunFolder
from emberward.sources.dumps import explain_paths
from emberward.supervise._diary import open_attempt
from emberward.supervise._late_lines import LateLines

RAISED = """[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/job/train.py", line {line}, in <module>
[rank{rank}]:     step()
[rank{rank}]: {words}
"""


def begin(folder: RunFolder) -> None:
    folder.logs.mkdir(exist_ok=True)
    open_attempt(folder, LateLines(), why="a test", num_ranks=2, config=None)


def write(folder: RunFolder, rank: int, line: int, words: str) -> None:
    with folder.rank_log(rank).open("a") as log:
        log.write(RAISED.format(rank=rank, line=line, words=words))


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(path=tmp_path)
    begin(folder)
    write(folder, 1, 7, "ValueError: a label of the first attempt")
    early = folder.early_logs / "x-attempt1" / "attempt_0" / "0"
    early.mkdir(parents=True)
    (early / "stderr.log").write_text(RAISED.format(rank=0, line=3, words="KeyError: of the first attempt"))
    begin(folder)
    return folder


def test_what_an_earlier_attempt_wrote_is_no_evidence_on_the_last(folder):
    write(folder, 0, 9, "RuntimeError: out of luck")
    (found,) = explain_paths([folder.path]).findings
    assert (found.culprit_ranks, found.cause, found.site) == ((0,), Cause.EXCEPTION, "train.py:9")
    assert any("rank00000.log:4 " in line for line in found.evidence), found.evidence


def test_lines_keep_their_numbers_in_a_log_that_goes_on(folder):
    write(folder, 1, 9, "ValueError: another label")
    (found,) = explain_paths([folder.path]).findings
    assert (found.culprit_ranks, found.site) == ((1,), "train.py:9")
    assert any("rank00001.log:8 " in line for line in found.evidence), found.evidence


def test_an_attempt_that_left_nothing_has_no_finding_of_the_one_before(folder):
    (found,) = explain_paths([folder.path]).findings
    assert found.code == "H107"


@pytest.mark.parametrize("line", ["", "{", "[]", '{"event": "start", "before": {"logs/rank00001.log": "no"}}'])
def test_a_diary_that_tells_nothing_leaves_all_files(folder, line):
    folder.attempts.write_text(line + "\n")
    (found,) = explain_paths([folder.path]).findings
    assert found.cause is Cause.EXCEPTION


def test_the_diary_tells_what_was_there_before(folder):
    start = json.loads(folder.attempts.read_text().splitlines()[-1])
    size = folder.rank_log(1).stat().st_size
    assert start["before"] == {"logs/launch/x-attempt1": None, "logs/rank00001.log": size}
