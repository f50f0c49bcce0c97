"""Which host is left out of a job, by whom, and when none is."""

import dataclasses
from dataclasses import replace

import pytest

from emberward.findings import Cause, Certainty, ConfigError, Finding, Kind, Severity
from emberward.runs import admit
from emberward.supervise import AttemptOutcome, Council, RunEnd, decide_rerun, require_part, wish_of
from emberward.supervise._agreement import Agreed
from emberward.supervise._left_out import keep_out, named_host
from emberward.supervise._nodes import Node

CUT = Finding(
    code="L112",
    severity=Severity.ERROR,
    kind=Kind.LINK,
    cause=Cause.LINK_DOWN,
    certainty=Certainty.OBSERVED,
    message="host n3 is cut off on the job's link: n1, n2 reach each other and not n3",
    hosts=("n3",),
)
DEATH = dataclasses.replace(CUT, code="L102", kind=Kind.CRASH, cause=Cause.SEGFAULT)


def failed(*findings: Finding) -> RunEnd:
    return RunEnd(outcome=AttemptOutcome.FAILED, exit_code=1, findings=findings, last_step=9, num_saves=0)


@pytest.mark.parametrize(
    ("finding", "is_named"),
    [
        (CUT, True),
        (dataclasses.replace(CUT, code="L113", cause=Cause.HOST_DOWN), True),
        (dataclasses.replace(CUT, hosts=("n2", "n3")), False),
        (dataclasses.replace(CUT, severity=Severity.WARNING), False),
        (dataclasses.replace(CUT, certainty=Certainty.INFERRED), False),
        (DEATH, False),
    ],
    ids=["cut", "down", "either of two", "the job moves", "a guess", "a death"],
)
def test_only_what_its_own_hardware_did_names_a_host(finding, is_named):
    assert (named_host([DEATH, finding]) is finding) is is_named


def test_the_named_host_makes_no_other_attempt_and_its_peers_go_on_without_it():
    agreed = Agreed(number=1, out={"n3": CUT.to_json()})
    rerun = decide_rerun([failed(CUT)], max_restarts=2)
    theirs, mine = (Council(Node(host=host, address="", mailbox="posts")) for host in ("n1", "n3"))
    assert mine.conclude(agreed, rerun)[0].why == "n3 was named (L112) and takes no part any more"
    assert not mine.conclude(agreed, rerun)[0].is_wanted
    restart, out = theirs.conclude(agreed, rerun)
    assert (restart.is_wanted, restart.why, out) == (True, "restart 1 of 2 without n3", (CUT,))
    assert theirs.conclude(replace(agreed, number=2), rerun)[1] == (), "told once"
    assert not decide_rerun([failed(CUT)], max_restarts=0).is_wanted
    assert wish_of([DEATH, CUT]) == {"n3": CUT}
    assert wish_of([DEATH]) == {}


def test_two_deaths_in_a_row_leave_no_host_out():
    """A bug of the program kills the rank that it meets, wherever that lies."""
    assert decide_rerun([failed(DEATH), failed(DEATH)], max_restarts=2).is_wanted


def test_a_start_on_a_host_that_was_named_is_refused_until_it_is_fixed(tmp_path):
    node = Node(host="n1", address="10.0.0.1", mailbox=str(tmp_path / "posts"))
    require_part("n3", excluded=(), mailbox=node.mailbox)
    assert keep_out(node, CUT) == keep_out(node, CUT), "one strike for one fault, whoever tells it"
    with pytest.raises(ConfigError) as caught:
        require_part("n3", excluded=(), mailbox=node.mailbox)
    assert str(caught.value) == (
        "L114 this host is left out\n"
        f"  where     {tmp_path}/posts/ledger/n3/0001.json\n"
        "  expected  a host that takes part\n"
        "  found     L112 host n3 is cut off on the job's link: n1, n2 reach each other and not n3\n"
        f"  next      emberward doctor --admit n3 --runs {tmp_path}/posts   (once the host is repaired)"
    )
    require_part("n1", excluded=(), mailbox=node.mailbox)
    admit(tmp_path / "posts", "n3", by="me", why="the cable was changed")
    require_part("n3", excluded=(), mailbox=node.mailbox)


def test_a_person_leaves_a_host_out_by_name(tmp_path):
    with pytest.raises(ConfigError, match="--exclude n3") as caught:
        require_part("n3", excluded=("n2", "n3"), mailbox=None)
    assert (caught.value.code, caught.value.exit_code) == ("L114", 2)
    require_part("n33", excluded=("n2", "n3"), mailbox="http://10.0.0.1:7070/")


def test_a_collector_keeps_nobody_out():
    assert keep_out(Node(host="n1", address="10.0.0.1", mailbox="http://10.0.0.1:7070/"), CUT) is None
