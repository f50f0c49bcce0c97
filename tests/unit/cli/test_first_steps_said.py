"""A run's first steps beside its page: said once, when there are enough of them, and kept in the run's folder."""

import json
import os

from emberward.cli._console import Screen
from emberward.cli._preflight import FirstSteps, held_bytes_of, keep_page, page_of, peak_bytes_of
from emberward.events import Compute, Event, Observer, Phase, Stage, Trace, write_trace
from emberward.plan import CSV_HEADER, HOST
from emberward.recipe import load_recipe, resolve
from emberward.report import RunFolder, write_json

STEPS = [{"step": step, "step_s": 0.5 * step, "tokens_per_s": 100.0} for step in range(1, 6)]


class Heard(Screen):
    """A screen that keeps what was said."""

    def __init__(self) -> None:
        super().__init__(is_json=True)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def start(path, *words: str):
    resolved = resolve(load_recipe("bloom_tiny", ["device=cpu", *words]), num_ranks=8, tokenizer_size=257)
    folder, screen = RunFolder(path=path), Heard()
    page = page_of(resolved, hardware=None, host="here")
    keep_page(page, resolved, folder)
    return folder, screen, FirstSteps(page, resolved, folder, screen)


def record(folder: RunFolder, rank: int) -> None:
    """Two recorded steps of rank `rank`: in the second it works three quarters of the time."""
    spans = [(0, 0, 100), (1, 200, 230), (1, 230, 260), (1, 270, 280)]
    events = tuple(
        Event(
            rank=rank,
            lane=HOST,
            position=position,
            body=Compute(name=f"0F{position}"),
            phase=Phase(step=step, stage=Stage.FORWARD),
            started_ns=begin,
            completed_ns=end,
        )
        for position, (step, begin, end) in enumerate(spans)
    )
    folder.events.mkdir(exist_ok=True)
    path = folder.events / f"rank{rank:05d}.jsonl"
    write_trace(Trace(world_size=8, events={rank: events}, observer=Observer.LIVE), path)


def test_nothing_is_said_before_three_steps_and_then_once(tmp_path):
    folder, screen, first_steps = start(tmp_path)
    first_steps.take(STEPS[:2])
    assert screen.said == []
    first_steps.take(STEPS[2:4])
    first_steps.take(STEPS[4:])
    first_steps.say()
    assert len(screen.said) == 1
    lines = screen.said[0].splitlines()
    assert lines[0] == "measured against the plan"
    assert "  step time   1.5 s, not predicted" in lines
    kept = json.loads(folder.preflight.read_text(encoding="utf-8"))
    assert {row["what"]: row["measured"] for row in kept["measured"]}["step_s"] == 1.5
    assert folder.boxing.read_text(encoding="utf-8").splitlines()[0] == CSV_HEADER


def test_a_run_that_ends_sooner_is_held_against_what_it_has_and_one_without_a_step_says_nothing(tmp_path):
    _, screen, first_steps = start(tmp_path)
    first_steps.say()
    assert screen.said == []
    first_steps.take(STEPS[:1])
    first_steps.say()
    assert "  step time   0.5 s, not predicted" in screen.said[0]


def test_recorded_steps_give_the_bubble_and_a_trace_that_is_cut_is_left_out(tmp_path):
    folder, screen, first_steps = start(tmp_path, "log.events=2")
    record(folder, 0)
    (folder.events / "rank00001.jsonl").write_text('{"cut')
    first_steps.take(STEPS)
    assert "  bubble      12.5%, 20.0% predicted (+60%)" in screen.said[0].splitlines()


def test_memory_is_that_of_the_living_ranks(tmp_path):
    folder, _, _ = start(tmp_path)
    folder.ranks.mkdir()
    write_json(folder.rank_file(0), {"rank": 0, "pid": os.getpid(), "held_bytes": 5})
    write_json(folder.rank_file(1), {"rank": 1, "pid": 2**30, "held_bytes": 7})
    write_json(folder.rank_file(2), {"rank": 2})
    found = peak_bytes_of(folder)
    assert list(found) == [0]
    assert found[0] > 10 * 2**20
    assert held_bytes_of(folder) == 7
