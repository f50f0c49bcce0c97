"""The launcher's decisions as tables."""

import pytest

from emberward.report import RunFolder
from emberward.supervise import AttemptOutcome, Move, Seen, StopBy, agent_command, agent_environment, next_move
from emberward.supervise._policy import FAILED_LIMIT_S, exit_code_of_launch, outcome_of

STOP = {"stop_at_s": 100.0, "stop_by": StopBy.INTERRUPT, "num_interrupts": 1, "has_ranks": True}


@pytest.mark.parametrize(
    ("facts", "move"),
    [
        ({}, Move.WAIT),
        ({"has_ranks": True}, Move.WAIT),
        ({**STOP, "now_s": 100.0}, Move.TELL),
        ({**STOP, "now_s": 110.0}, Move.TELL),
        ({**STOP, "now_s": 110.1}, Move.KILL),
        ({**STOP, "num_interrupts": 2}, Move.KILL),
        ({**STOP, "has_ranks": False}, Move.KILL),
        ({**STOP, "stop_by": StopBy.TERMINATE, "num_interrupts": 0}, Move.TELL),
        ({"has_ranks": True, "failed_at_s": 100.0, "now_s": 100.0 + FAILED_LIMIT_S}, Move.WAIT),
        ({"has_ranks": True, "failed_at_s": 100.0, "now_s": 100.1 + FAILED_LIMIT_S}, Move.KILL),
    ],
)
def test_the_next_move_follows_from_what_is_seen(facts, move):
    assert next_move(Seen(**{"now_s": 100.0, **facts}), grace_s=10.0) is move


@pytest.mark.parametrize(
    ("said", "agent", "has_ranks", "stop_by", "forced", "outcome"),
    [
        ("done", 0, True, None, False, AttemptOutcome.DONE),
        ("done", 0, True, StopBy.INTERRUPT, False, AttemptOutcome.DONE),
        ("stopped", 0, True, StopBy.TERMINATE, False, AttemptOutcome.STOPPED),
        ("stopped", 0, True, None, False, AttemptOutcome.STOPPED),
        # Rank 0 ended well but another rank did not: its word alone is not believed.
        ("done", 1, True, None, False, AttemptOutcome.FAILED),
        ("stopped", 1, True, StopBy.TERMINATE, False, AttemptOutcome.FAILED),
        (None, 0, True, None, False, AttemptOutcome.FAILED),
        (None, 1, False, None, False, AttemptOutcome.FAILED),
        (None, -9, False, StopBy.INTERRUPT, True, AttemptOutcome.STOPPED),
        (None, -9, True, StopBy.INTERRUPT, True, AttemptOutcome.KILLED),
        # The launcher ended ranks that hung after a failure; nobody had asked for a stop.
        (None, -9, True, None, True, AttemptOutcome.FAILED),
        (None, 1, True, StopBy.TERMINATE, False, AttemptOutcome.FAILED),
        ("nonsense", 0, True, None, False, AttemptOutcome.FAILED),
    ],
)
def test_an_outcome_follows_from_the_summary_and_the_agent(said, agent, has_ranks, stop_by, forced, outcome):
    summary = None if said is None else {"outcome": said}
    found = outcome_of(summary=summary, agent_exit_code=agent, has_ranks=has_ranks, stop_by=stop_by, forced=forced)
    assert found is outcome


@pytest.mark.parametrize(
    ("outcome", "stop_by", "code"),
    [
        (AttemptOutcome.DONE, None, 0),
        (AttemptOutcome.DONE, StopBy.INTERRUPT, 0),
        (AttemptOutcome.STOPPED, StopBy.INTERRUPT, 130),
        (AttemptOutcome.STOPPED, StopBy.TERMINATE, 75),
        (AttemptOutcome.STOPPED, None, 75),
        (AttemptOutcome.FAILED, None, 1),
        (AttemptOutcome.FAILED, StopBy.TERMINATE, 1),
        (AttemptOutcome.KILLED, StopBy.INTERRUPT, 1),
    ],
)
def test_exit_codes(outcome, stop_by, code):
    assert exit_code_of_launch(outcome, stop_by) == code


def test_the_agent_listens_on_this_machine_alone_and_restarts_nothing(tmp_path):
    command = agent_command(folder=RunFolder(path=tmp_path / "a" / "7"), num_ranks=3, attempt=2, python="python3")
    assert command[:3] == ("python3", "-m", "torch.distributed.run")
    assert {"--nproc-per-node=3", "--max-restarts=0", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=7-attempt2"} < set(
        command
    )
    assert command[-4:] == ("-m", "emberward.rank", "--folder", str(tmp_path / "a" / "7"))


def test_what_a_person_set_in_the_environment_stays():
    assert agent_environment({})["OMP_NUM_THREADS"] == "1"
    kept = agent_environment({"OMP_NUM_THREADS": "8", "HOME": "/h"})
    assert (kept["OMP_NUM_THREADS"], kept["HOME"], kept["EMBERWARD_SUPERVISED"]) == ("8", "/h", "1")


def test_only_a_restart_of_our_own_passes_over_a_damaged_save():
    inherited = {"EMBERWARD_RELAUNCHED": "1"}
    assert agent_environment(inherited)["EMBERWARD_RELAUNCHED"] == "0"
    assert agent_environment(inherited, is_restart=True)["EMBERWARD_RELAUNCHED"] == "1"
