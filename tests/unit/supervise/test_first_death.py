"""Who died first: causes, secondary failures, and what only looks like one."""

import pytest

from emberward.findings import Cause, Certainty, EmberwardError
from emberward.supervise._death import (
    RankRecord,
    death_finding,
    death_text,
    first_death,
    folded,
    how_it_ended,
    parse_agent_report,
)

GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:31415"


def raised(kind: str, message: str, at: float = 10.0, finding: dict | None = None) -> dict:
    trace = f'Traceback (most recent call last):\n  File "train.py", line 3\n{kind}: {message}\n'
    return {"type": kind, "message": message, "time_unix": at, "traceback": trace, "finding": finding}


def of(rank: int, **facts) -> RankRecord:
    return RankRecord(rank=rank, pid=1000 + rank, host="n1", **facts)


def ours(code: str, what: str) -> dict:
    error = EmberwardError(what, code=code)
    return raised("EmberwardError", str(error), finding=error.to_finding().to_json())


SECONDARY = [
    raised("RuntimeError", GLOO),
    raised("RuntimeError", "[pair.cc:553] Read error [127.0.0.1]:7: Connection reset by peer"),
    raised("RuntimeError", "Application timeout caused pair closure: Timed out waiting 60000ms for recv operation"),
    raised("DistBackendError", "NCCL error in: ProcessGroupNCCL.cpp: remote process exited or the network broke"),
    raised("DistNetworkError", "Failed to recv, got 0 bytes. Connection was likely closed."),
    raised("DistStoreError", "wait timeout after 120000ms, keys: /world/0"),
    ours("K103", "another rank could not write its part of the checkpoint"),
]
LOOK_ALIKES = [
    raised("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    raised("BrokenPipeError", "[Errno 32] Broken pipe"),
    raised("URLError", "<urlopen error timed out waiting for the tokenizer>"),
    raised("ValueError", "loss went from connection closed by peer to nan"),
    raised("RuntimeError", "DataLoader timed out after 60 seconds"),
    raised("RuntimeError", "CUDA error: device-side assert triggered"),
    ours("D103", "timed out waiting for a batch"),
    ours("K103", "rank 3 could not write: Broken pipe"),
]


@pytest.mark.parametrize("failure", SECONDARY, ids=lambda failure: failure["message"][:30])
def test_a_broken_connection_between_ranks_is_secondary(failure):
    assert of(0, failure=failure).ending.is_secondary


@pytest.mark.parametrize("failure", LOOK_ALIKES, ids=lambda failure: failure["message"][:30])
def test_what_only_reads_like_it_is_a_cause(failure):
    assert not of(0, failure=failure).ending.is_secondary


def test_the_first_cause_is_found_behind_earlier_secondary_failures():
    ends = [
        of(0, failure=raised("RuntimeError", GLOO, at=10.0)),
        of(1, failure=raised("ValueError", "bad token", at=10.4)),
        of(2, failure=raised("KeyError", "later", at=10.5)),
        of(3),
    ]
    culprit, certainty = first_death(ends)
    assert (culprit.rank, certainty) == (1, Certainty.OBSERVED)


def test_a_rank_that_was_killed_counts_from_when_it_was_seen_gone():
    killed = of(2, exit_code=-9, gone_unix=11.0)
    ends = [of(0, failure=raised("RuntimeError", GLOO, at=10.9)), of(1, exit_code=-15, gone_unix=10.5), killed]
    assert first_death(ends) == (killed, Certainty.OBSERVED)


def test_when_all_are_secondary_the_earliest_is_inferred_and_said_to_be():
    ends = [of(0, failure=raised("RuntimeError", GLOO, at=11.0)), of(1, failure=raised("RuntimeError", GLOO, at=10.0))]
    culprit, certainty = first_death(ends)
    assert (culprit.rank, certainty) == (1, Certainty.INFERRED)
    finding = death_finding(culprit, certainty, ends[:1])
    assert finding.message.endswith("every failure is secondary: it names a lost peer")


def test_no_death_is_no_death():
    assert first_death([of(0), of(1, exit_code=0, gone_unix=3.0)]) is None
    assert first_death([]) is None


@pytest.mark.parametrize(
    ("facts", "cause", "words"),
    [
        ({"exit_code": -9}, Cause.KILLED, "killed by SIGKILL"),
        ({"exit_code": -11}, Cause.SEGFAULT, "killed by SIGSEGV"),
        ({"exit_code": -6}, Cause.EXCEPTION, "aborted itself (SIGABRT)"),
        ({"exit_code": -63}, Cause.KILLED, "killed by signal 63"),
        ({"exit_code": 3}, Cause.MAIN_EXITED, "exit code 3"),
        ({"gone_unix": 3.0}, None, "gone, nobody saw how"),
        ({"failure": raised("ValueError", "first\nsecond")}, Cause.EXCEPTION, "ValueError: first"),
        ({"failure": raised("MemoryError", "")}, Cause.OUT_OF_MEMORY, "MemoryError"),
        (
            {"failure": raised("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB")},
            Cause.OUT_OF_MEMORY,
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        ),
        (
            {"failure": raised("OSError", "[Errno 28] No space left on device")},
            Cause.DISK_FULL,
            "OSError: [Errno 28] No space left on device",
        ),
        ({"failure": raised("RuntimeError", GLOO)}, Cause.UNKNOWN, f"RuntimeError: {GLOO}"),
    ],
)
def test_a_death_has_a_cause_and_words(facts, cause, words):
    record = of(0, **facts)
    assert (None if record.ending is None else record.ending.cause, how_it_ended(record)) == (cause, words)


def test_a_finding_of_the_rank_itself_is_handed_on():
    end = of(1, failure=ours("D102", "the data changed since the run began"))
    finding = death_finding(end, Certainty.OBSERVED, [])
    assert (finding.code, finding.message) == ("D102", "the data changed since the run began")


def test_a_finding_names_the_rank_the_host_and_what_was_ruled_out():
    killed = of(2, exit_code=-9, gone_unix=11.0, log="logs/rank00002.log", log_tail=("last words",))
    victim = of(0, failure=raised("RuntimeError", GLOO))
    finding = death_finding(killed, Certainty.OBSERVED, [victim])
    assert (finding.code, finding.culprit_ranks, finding.hosts) == ("L102", (2,), ("n1",))
    assert finding.message == "rank 2 died first: killed by SIGKILL"
    assert finding.evidence[:2] == ("logs/rank00002.log", "last words")
    assert finding.evidence[2:] == (f"rank 0 then failed as a consequence: RuntimeError: {GLOO}",)


AGENT = """
E1121 05:00:00.000000 77 torch/distributed/elastic/multiprocessing/api.py:1010] failed (exitcode: 1)
Failures:
[1]:
  time      : 2026-11-21_05:00:00
  host      : n1
  rank      : 1 (local_rank: 1)
  exitcode  : -11 (pid: 4242)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 4242
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_05:00:00
  host      : n1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4241)
  error_file: <N/A>
"""


def test_the_agents_report_gives_codes_and_pids():
    assert parse_agent_report(AGENT) == {1: (-11, 4242), 0: (1, 4241)}
    assert parse_agent_report("rank : 1\n exitcode: x") == {}


def test_the_others_are_folded_to_one_line_for_each_way():
    culprit = of(0, failure=raised("ValueError", "bad token 17"))
    ends = [
        culprit,
        of(1, failure=raised("ValueError", "bad token 18")),
        *(of(rank, failure=raised("RuntimeError", GLOO.replace("31415", str(rank)))) for rank in (2, 3, 4)),
        of(5),
    ]
    assert folded(ends, culprit) == [
        "rank 1: same",
        "ranks 2, 3, 4: RuntimeError: " + GLOO.replace("31415", "2"),
    ]


def test_the_first_deaths_traceback_comes_last_in_a_box_without_control_characters():
    culprit = of(1, failure=raised("ValueError", "bad \x1b[31m token"), exit_code=1, coordinates={"pp": 1, "dp": 0})
    ends = [of(0, failure=raised("RuntimeError", GLOO)), culprit]
    finding = death_finding(culprit, Certainty.OBSERVED, ends[:1], can_resume=True)
    assert death_text(ends, culprit, finding) == "\n".join(
        [
            f"rank 0: RuntimeError: {GLOO}",
            "╭─ L102 rank 1 died first: ValueError: bad \\x1b[31m token",
            "│ host n1   pid 1001   pp1 dp0   exit code 1",
            "│ next fix the cause shown in the traceback; then resume from the last save",
            "│",
            "│ Traceback (most recent call last):",
            '│   File "train.py", line 3',
            "│ ValueError: bad \\x1b[31m token",
            "╰" + "─" * 56,
        ]
    )


def test_a_long_traceback_keeps_its_end():
    failure = raised("RecursionError", "deep")
    failure["traceback"] = "\n".join(f"frame {n}" for n in range(100))
    culprit = of(0, failure=failure)
    text = death_text([culprit], culprit, death_finding(culprit, Certainty.OBSERVED, []))
    assert "... 40 lines left out" in text
    assert "frame 39\n" not in text
    assert text.splitlines()[-2] == "│ frame 99"
