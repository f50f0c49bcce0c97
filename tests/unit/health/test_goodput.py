"""Where a night went: 24 faults, and every second of it counted once."""

import random
from datetime import UTC, datetime

import pytest

from emberward.health import goodput_of, hours_lost_by_cause, spent_of

BEGAN_UNIX = 1_790_000_000.0


def text(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


def a_night(seed: int) -> tuple[list[dict], dict[str, float], float, float]:
    """Diary, what each cause lost, seconds of the steps kept, seconds in all; 24 failures and the end."""
    rng, now, lines, lost, kept = random.Random(seed), BEGAN_UNIX, [], {}, 0.0
    for attempt in range(1, 26):
        cause = rng.choice(["segfault", "host_down", "device_stall", "killed"]) if attempt < 25 else None
        started, work, again, pause = 60, rng.randrange(600, 1800), rng.randrange(10, 300), rng.randrange(20, 90)
        lines.append({"event": "start", "attempt": attempt, "start": text(now)})
        now += started + work + (again if cause else 0)
        kept += work
        end = {"event": "end", "attempt": attempt, "end": text(now), "outcome": "failed" if cause else "done"}
        if cause:
            lines.append({**end, "cause": cause, "hours_lost": again / 3600})
            lost[cause] = lost.get(cause, 0.0) + again + pause
            now += pause
        else:
            lines.append(end)
    return lines, lost, kept, now - BEGAN_UNIX


@pytest.mark.parametrize("seed", range(5))
def test_every_second_of_a_night_is_counted_once(seed):
    lines, lost, kept, elapsed = a_night(seed)
    found = goodput_of(lines, kept)
    assert found.num_failures == 24
    assert found.lost_s == pytest.approx(lost)
    assert (found.elapsed_s, found.other_s) == pytest.approx((elapsed, 25 * 60))
    assert found.share == pytest.approx(kept / elapsed)
    assert list(found.lost_s.values()) == sorted(found.lost_s.values(), reverse=True), "the dearest cause first"
    assert {row.cause: row.hours * 3600 for row in hours_lost_by_cause(lines)} == found.lost_s, "one ledger of hours"


def test_a_run_that_still_goes_or_has_no_times_has_none():
    assert goodput_of([{"event": "start", "start": text(BEGAN_UNIX)}], 10.0) is None
    assert goodput_of([{"event": "start"}, {"event": "end", "end": "late"}], 10.0) is None


def test_a_run_that_goes_on_has_what_it_lost_so_far():
    lines, lost, _, elapsed = a_night(1)
    spent = spent_of(lines[:-1], until_unix=BEGAN_UNIX + elapsed)
    assert spent.lost_s == pytest.approx(lost)
    assert spent.lost_share == pytest.approx(sum(lost.values()) / elapsed)


def test_a_rewind_that_was_undone_lost_nothing():
    lines = [
        {"event": "start", "attempt": 1, "start": text(BEGAN_UNIX)},
        {"event": "rewind", "number": 1, "hours_lost": 1.0},
        {"event": "end", "attempt": 1, "end": text(BEGAN_UNIX + 7200), "outcome": "done"},
    ]
    assert goodput_of(lines, 3600.0).lost_s == {"rewind": 3600.0}
    assert goodput_of([*lines, {"event": "undo_rewind", "number": 1}], 3600.0).lost_s == {}
