"""Two worlds in one run: the older one ends before its next step, and a world that is alone never does."""

import pytest

from emberward.findings import EmberwardError
from emberward.rank._signals import StopRequest
from emberward.report import write_json


def test_the_older_world_ends_with_the_host_that_took_over(tmp_path, wait_until):
    launch, older, newer = tmp_path / "launch.json", StopRequest(), StopRequest()
    write_json(launch, {"launch": "ours", "world": "1", "host": "node1"})
    older.guard(launch, "1")
    older.require_own_run()
    write_json(launch, {"launch": "ours", "world": "2", "host": "node2"})
    newer.guard(launch, "2")

    def has_ended() -> bool:
        try:
            older.require_own_run()
        except EmberwardError:
            return True
        return False

    wait_until(has_ended, "the older world's end")
    with pytest.raises(EmberwardError, match="C111 another launch has taken over this run") as caught:
        older.require_own_run()
    assert caught.value.exit_code == 1
    assert "ranks that node2 started since train it now" in caught.value.text()
    newer.require_own_run()


@pytest.mark.parametrize(
    "text", [None, "", "{", '{"launch": "ours"}'], ids=["gone", "empty", "cut", "of a version before"]
)
def test_a_file_that_says_nothing_ends_nobody(tmp_path, wait_until, text):
    launch, stop = tmp_path / "launch.json", StopRequest()
    if text is not None:
        launch.write_text(text)
    stop.guard(launch, "1")
    again = StopRequest()
    again.guard(launch, "2")
    write_json(tmp_path / "other.json", {"world": "3", "host": "node3"})
    elsewhere = StopRequest()
    elsewhere.guard(tmp_path / "other.json", "1")
    wait_until(lambda: elsewhere._successor == "node3", "another look of the same age")
    stop.require_own_run()
    again.require_own_run()
