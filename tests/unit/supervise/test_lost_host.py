"""What a host itself answers after a failed attempt says more than what its peers saw of it."""

from emberward.findings import host_down
from emberward.supervise._launch_hosts import _with_ranks


def test_a_host_that_booted_again_keeps_the_ranks_that_its_peers_named():
    asked = host_down("b", "has booted again while it trained", evidence=("it was asked",), next="look")
    seen = host_down("b", "is silent for 10 s", ranks=(1,), waiting_ranks=(0,), next="look")
    found = _with_ranks(asked, [host_down("a", "is silent for 10 s", ranks=(0,), next="look"), seen])
    assert found.message == asked.message
    assert (found.culprit_ranks, found.waiting_ranks) == ((1,), (0,))
    assert found.evidence == ("it was asked", f"its peers: {seen.message}")


def test_a_host_of_which_its_peers_said_nothing_is_told_as_it_was_asked():
    asked = host_down("b", "does not answer any more", next="look")
    assert _with_ranks(asked, [host_down("a", "is silent for 10 s", next="look")]) is asked
