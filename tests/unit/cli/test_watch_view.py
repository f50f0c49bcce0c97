"""The live view in a terminal, word for word at 80 and 40 columns, and bounded."""

import pytest
from canned_runs import START, make

from emberward.cli._watch_view import watch_lines
from emberward.report import Progress, read_glance

NOW = START + 3600
PROGRESS = Progress(phase="train", step=120, steps=200, loss=2.05, tokens_per_s=8400.0, step_s=0.51, eta_s=41.0)


def view(tmp_path, kind, *, width, height=40):
    glance = read_glance(make(kind, tmp_path, now_unix=NOW), now_unix=NOW)
    lag = {3: [0.18] * 20, 1: [0.0, None] * 10}
    return watch_lines(glance, PROGRESS, losses=[5.0, 4.0, 3.0, 2.0], lag=lag, width=width, height=height)


def test_a_hang_at_80_columns(tmp_path):
    assert view(tmp_path, "hang", width=80) == [
        "STALLED for 4 min 12 s  hang 20261122-094640-ab12",
        "last step 4 min 12 s ago (LATE, limit 30 s)",
        "step 120/200  loss 2.0500  8.4k tok/s  0.51 s/step  ETA 41 s",
        "loss       █▆▃▁  last 4 steps",
        "MFU        41.0%",
        "rank 3     ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅  180 ms behind",
        "rank 1     ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅ ▅  0 ms behind",
        "last save  none, 120 steps at risk",
        "",
        "ERROR  H125  a rank is stopped",
        "  what      rank 5 reads a file at data.py:88 and has not joined all_reduce 211;",
        "            7 ranks wait for it",
        "            in step 120, F",
        "  who       rank 5 (node-01, pp 1 dp 0 tp 1) at data.py:88",
        "            on node-02",
        "            7 wait: ranks 0-4, 6, 7",
        "  why       rank 5 last issued all_reduce 210, its peers 211",
        "            its stack: data.py:88 read, in 6 of 6 snapshots",
        "  not       a dead rank: all 8 processes live",
        "            a mismatch: the calls before are alike",
        "  certainty observed: was seen",
        "  do        emberward explain 4242",
        "  cost      8 of 8 ranks do not train",
        "            120 steps since the start would be done again, 1 min 2 s of work",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("kind", ["healthy", "hang", "straggler", "hostile", "empty", "corrupt"])
def test_the_view_fits_its_screen(tmp_path, kind, width):
    lines = view(tmp_path, kind, width=width, height=20)
    assert len(lines) <= 20
    # A word is never cut: only one that is longer than the screen may stand out.
    assert all(len(line) <= width or " " not in line.strip() for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_narrow_screen_has_state_age_and_card_alone(tmp_path):
    lines = view(tmp_path, "straggler", width=50)
    assert lines[0].startswith("RUNNING")
    assert not any(line.startswith(("loss", "rank")) for line in lines)
    assert "WARNING  H140  a rank is waited for in every step" in lines
