"""Which host or link is cut, from what the hosts of a job tell each other."""

import dataclasses
import json
import socket
import threading
import urllib.request

import pytest

from emberward.findings import Cause, Severity
from emberward.supervise._mailbox import FolderMailbox, Freshness, open_mailbox
from emberward.supervise._nodes import SILENT_S, NodePost, judge_nodes
from emberward.supervise._probe import Listener, is_reached
from emberward.supervise.collector import Collector


def posts(cut: set[str], *, hosts: str = "abc", is_still: bool = True, silent: str = "") -> list[NodePost]:
    """Posts of hosts that reach each other but for the pairs in `cut`, such as ``ac``."""
    found = []
    for number, host in enumerate(hosts):
        reached = {other: not {host + other, other + host} & cut and other not in silent for other in hosts}
        del reached[host]
        quiet_s = SILENT_S + 5.0 if host in silent else 0.5
        found.append(NodePost(host=host, ranks=(number,), reached=reached, is_still=is_still, silent_s=quiet_s))
    return found


def test_hosts_that_reach_each_other_are_no_alarm():
    assert judge_nodes(posts(set())) == ()


def test_the_host_that_is_cut_from_all_others_is_named_and_no_innocent_peer():
    (found,) = judge_nodes(posts({"ac", "bc"}))
    assert (found.code, found.severity, found.cause) == ("L112", Severity.ERROR, Cause.LINK_DOWN)
    assert (found.hosts, found.culprit_ranks, found.waiting_ranks) == (("c",), (2,), (0, 1))
    assert found.message == "host c is cut off on the job's link: a, b reach each other and not c"


def test_of_two_hosts_both_are_named_and_no_culprit():
    (found,) = judge_nodes(posts({"ab"}, hosts="ab"))
    assert (found.hosts, found.culprit_ranks, found.waiting_ranks) == (("a", "b"), (), (0, 1))
    assert found.message == (
        "hosts a and b do not reach each other on the job's link; which end is cut cannot be told from two hosts"
    )


def test_one_cut_link_among_three_hosts_is_no_host_s_fault():
    (found,) = judge_nodes(posts({"ab"}))
    assert (found.hosts, found.culprit_ranks) == (("a", "b"), ())
    assert found.message.endswith("; each still reaches another host")


def test_two_cut_hosts_of_four_are_both_named():
    found = judge_nodes(posts({"ac", "bc", "ad", "bd", "cd"}, hosts="abcd"))
    assert [each.hosts for each in found] == [("c",), ("d",)]


def test_one_side_that_does_not_get_through_is_enough():
    first, *others = posts({"ac", "bc"})
    deaf = [dataclasses.replace(post, reached={**post.reached, "c": True}) for post in (first, others[0])]
    (found,) = judge_nodes([*deaf, others[1]])
    assert found.hosts == ("c",)


def test_a_cut_that_holds_up_nobody_is_a_warning():
    (found,) = judge_nodes(posts({"ac", "bc"}, is_still=False))
    assert found.severity is Severity.WARNING


def test_a_silent_host_that_nobody_reaches_is_down_and_one_that_is_reached_is_not():
    (found,) = judge_nodes(posts(set(), silent="c"))
    assert (found.code, found.cause, found.hosts) == ("L113", Cause.HOST_DOWN, ("c",))
    assert found.message == "host c is silent for 15 s, and nobody reaches it on the job's link"
    reached = [
        dataclasses.replace(post, reached=dict.fromkeys(post.reached, True)) for post in posts(set(), silent="c")
    ]
    assert judge_nodes(reached) == ()


def test_no_news_of_a_host_is_no_alarm():
    fresh = [dataclasses.replace(post, reached={}) for post in posts(set())]
    assert judge_nodes(fresh) == ()


@pytest.fixture
def collector():
    with Collector(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_folder_and_a_collector_give_everybody_everybody_s_posts(tmp_path, collector):
    for target in (str(tmp_path / "posts"), collector):
        mailbox = open_mailbox(target)
        mailbox.exchange("a/1", {"number": 1})
        assert mailbox.exchange("b", {"number": 5}) == {
            "a/1": {"host": "a/1", "number": 1},
            "b": {"host": "b", "number": 5},
        }
    (tmp_path / "posts" / "b.json").write_text('{"host": "b", "num')
    assert list(FolderMailbox(tmp_path / "posts").exchange("a/1", {"number": 2})) == ["a/1"]


def test_a_collector_refuses_what_is_no_post(collector):
    for body in (b"[]", b"{", b'{"number": 1}'):
        request = urllib.request.Request(collector, data=body)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        refused.value.close()
        assert refused.value.code == 400
    assert open_mailbox(collector).exchange("a", {}) == {"a": {"host": "a"}}


def test_a_mailbox_that_cannot_be_reached_raises_oserror():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        open_mailbox(f"http://127.0.0.1:{port}/").exchange("a", {})


def test_freshness_counts_by_our_own_clock_and_ignores_the_posts_of_an_earlier_job():
    freshness = Freshness()
    old = {"number": 7}
    assert freshness.silent_s({"a": {"number": 1}, "old": old}, now_s=0.0) == {}
    assert freshness.silent_s({"a": {"number": 2}, "old": old}, now_s=1.0) == {"a": 0.0}
    assert freshness.silent_s({"a": {"number": 2}, "old": old}, now_s=21.0) == {"a": 20.0}
    assert freshness.silent_s({"a": {"number": 3, "has_left": True}}, now_s=22.0) == {}


def test_a_listener_is_reached_and_a_closed_one_is_not():
    listener = Listener("127.0.0.1")
    assert is_reached("127.0.0.1", listener.port, from_address="127.0.0.1", limit_s=20.0)
    listener.close()
    assert not is_reached("127.0.0.1", listener.port, from_address="127.0.0.1")
    assert json.dumps(listener.port).isdecimal()
