"""What an end was and which came first, from facts alone; and that every observer's facts get the same answer."""

from dataclasses import replace

import pytest

from emberward.diagnose import classify, first_endings, is_secondary
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty

LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:7"
SECONDARY = [
    LOST,
    "RuntimeError: [pair.cc:553] Read error [127.0.0.1]:7: Connection reset by peer",
    "RuntimeError: Application timeout caused pair closure: Timed out waiting 60000ms for recv operation",
    "RuntimeError: Rank 1 failed to pass monitoredBarrier in 30000 ms",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2",
    "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15",
    "EmberwardError: K103 another rank could not write its part of the checkpoint",
]
LOOK_ALIKES = [
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "requests.exceptions.ConnectionError: timed out waiting for the tokenizer",
    "ValueError: loss went from connection closed by peer to nan",
    "RuntimeError: DataLoader timed out after 60 seconds",
    "EmberwardError: D103 timed out waiting for a batch",
    "",
]


@pytest.mark.parametrize("words", SECONDARY)
def test_an_exception_that_names_a_lost_peer_is_secondary(words):
    assert is_secondary(words)
    ending = classify(RankEnd(rank=0, words=words))
    assert ending is not None
    assert (ending.is_secondary, ending.cause) == (True, Cause.UNKNOWN)


@pytest.mark.parametrize("words", LOOK_ALIKES)
def test_an_exception_of_the_program_s_own_is_not(words):
    assert not is_secondary(words)


@pytest.mark.parametrize(
    ("facts", "cause", "text", "certainty"),
    [
        ({"exit_code": -9}, Cause.KILLED, "killed by SIGKILL", Certainty.OBSERVED),
        ({"exit_code": -7}, Cause.SEGFAULT, "killed by SIGBUS", Certainty.OBSERVED),
        ({"exit_code": -6}, Cause.EXCEPTION, "aborted itself (SIGABRT)", Certainty.OBSERVED),
        ({"exit_code": -6, "words": "ValueError: x"}, Cause.EXCEPTION, "ValueError: x", Certainty.OBSERVED),
        ({"exit_code": -11, "words": "ValueError: x"}, Cause.SEGFAULT, "killed by SIGSEGV", Certainty.OBSERVED),
        ({"words": "ValueError: two\nlines"}, Cause.EXCEPTION, "ValueError: two", Certainty.OBSERVED),
        ({"words": "KeyError: "}, Cause.EXCEPTION, "KeyError", Certainty.OBSERVED),
        (
            {"words": "torch.OutOfMemoryError: CUDA"},
            Cause.OUT_OF_MEMORY,
            "torch.OutOfMemoryError: CUDA",
            Certainty.OBSERVED,
        ),
        (
            {"words": "RuntimeError: [enforce fail at /w/gloo/gloo/alltoallv.cc:138] inLength[0] == outLength[0]."},
            Cause.SHAPE,
            "RuntimeError: [enforce fail at /w/gloo/gloo/alltoallv.cc:138] inLength[0] == outLength[0].",
            Certainty.OBSERVED,
        ),
        (
            {"words": "RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted."},
            Cause.DATALOADER_WORKER,
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted.",
            Certainty.OBSERVED,
        ),
        ({"words": "OSError: [Errno 122] x"}, Cause.DISK_FULL, "OSError: [Errno 122] x", Certainty.OBSERVED),
        (
            {"words": "Fatal Python error: Segmentation fault"},
            Cause.SEGFAULT,
            "Fatal Python error: Segmentation fault",
            Certainty.OBSERVED,
        ),
        (
            {"words": "ValueError: Segmentation fault"},
            Cause.EXCEPTION,
            "ValueError: Segmentation fault",
            Certainty.OBSERVED,
        ),
        ({"exit_code": 3, "is_recorded": True}, Cause.MAIN_EXITED, "exit code 3", Certainty.OBSERVED),
        ({"exit_code": 3}, Cause.UNKNOWN, "exit code 3", Certainty.INFERRED),
        ({"exit_code": 0}, Cause.MAIN_EXITED, "its program ended", Certainty.OBSERVED),
        ({"has_left": True, "has_data_end": True}, Cause.UNEVEN_DATA, "its program ended", Certainty.OBSERVED),
        ({}, Cause.UNKNOWN, "gone, nobody saw how", Certainty.UNKNOWN),
    ],
)
def test_an_end_has_a_cause_and_words(facts, cause, text, certainty):
    ending = classify(RankEnd(rank=0, **facts))
    assert ending is not None
    assert (ending.cause, ending.text, ending.certainty) == (cause, text, certainty)


def test_a_process_that_runs_has_not_ended():
    assert classify(RankEnd(rank=0, is_gone=False, is_recorded=True)) is None


def firsts(*ends: RankEnd, is_needed: bool = False) -> tuple[list[int | None], Certainty]:
    found, certainty = first_endings([each for end in ends if (each := classify(end)) is not None], is_needed=is_needed)
    return [ending.end.rank for ending in found], certainty


VICTIM = RankEnd(rank=0, words=LOST, at_s=10.0)
ENDED = RankEnd(rank=1, exit_code=-15, at_s=9.0)
LEFT = RankEnd(rank=2, exit_code=0, at_s=10.5)


def test_the_first_failure_of_its_own_is_the_cause_however_late_it_was_seen():
    killed, raised = RankEnd(rank=2, exit_code=-9, at_s=11.0), RankEnd(rank=3, words="ValueError: x", at_s=12.0)
    assert firsts(VICTIM, ENDED, raised, killed) == ([2, 3], Certainty.OBSERVED)


def test_without_times_what_ends_a_process_at_once_comes_before_an_exception():
    assert firsts(RankEnd(rank=1, words="ValueError: x"), RankEnd(rank=2, exit_code=-9))[0] == [2, 1]


def test_of_secondary_failures_alone_the_earliest_is_inferred():
    assert firsts(VICTIM, ENDED) == ([1], Certainty.INFERRED)


@pytest.mark.parametrize(("at_s", "named"), [(10.5, [2]), (20.0, [0])], ids=["before", "long after"])
def test_a_rank_that_left_before_the_secondary_failures_is_their_cause(at_s, named):
    assert firsts(VICTIM, replace(LEFT, at_s=at_s))[0] == named


def test_a_rank_that_left_is_no_cause_unless_somebody_needs_it():
    assert firsts(LEFT) == ([], Certainty.UNKNOWN)
    assert firsts(LEFT, is_needed=True) == ([2], Certainty.OBSERVED)


@pytest.mark.parametrize(("alive_s", "named"), [(10.0, [3]), (2.0, [3, 4])], ids=["ended for it", "gone before it"])
def test_who_is_gone_without_a_word_and_was_alive_after_a_failure_was_ended_for_it(alive_s, named):
    raised = RankEnd(rank=3, words="ValueError: x", at_s=5.0)
    silent = RankEnd(rank=4, is_recorded=True, at_s=11.0, alive_s=alive_s)
    assert firsts(silent, raised)[0] == named
