"""Which host or link is cut, from what the hosts of a job tell each other."""

import dataclasses
import json
import socket
import threading
import urllib.request

import pytest
from unit.sources.live_snapshots import process, rank_snapshot, ring, snapshot, stack, waiting

from emberward.diagnose.live import ProcessState
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.live import WatchReport
from emberward.supervise import _node_agent as node_agent
from emberward.supervise._agreement import Agreed
from emberward.supervise._mailbox import FolderMailbox, Freshness, Heard, open_mailbox
from emberward.supervise._node_agent import NodeAgent
from emberward.supervise._nodes import MAX_PEERS, SILENT_S, Node, NodePost, judge_nodes, peers_of, speaker
from emberward.supervise._post_office import PostOffice
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


def test_two_groups_that_do_not_reach_each_other_are_told_in_one_finding_without_a_culprit():
    across = {a + b for a in "abc" for b in "de"}
    (found,) = judge_nodes(posts(across, hosts="abcde"))
    assert (found.code, found.hosts, found.culprit_ranks) == ("L112", ("d", "e"), ())
    assert found.message == "hosts d, e reach each other on the job's link, and none of a, b, c"


def test_a_host_that_tried_one_other_so_far_is_not_called_cut_off():
    early = [dataclasses.replace(post, reached=reached) for post, reached in zip(
        posts(set()), ({"b": True}, {"a": True}, {"a": False}), strict=True)]  # fmt: skip
    (found,) = judge_nodes(early)
    assert found.hosts == ("a", "c")


@pytest.mark.parametrize("count", [2, MAX_PEERS + 1, MAX_PEERS + 2, 500])
def test_each_host_is_tried_by_as_many_as_it_tries(count):
    hosts = [f"n{number:04d}" for number in range(count)]
    tried = [other for host in hosts for other in peers_of(host, hosts)]
    assert {tried.count(host) for host in hosts} == {min(count - 1, MAX_PEERS)}
    assert all(host not in peers_of(host, hosts) for host in hosts)


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


def test_a_host_that_has_just_ceased_to_post_is_not_called_cut():
    """It may be down: ten seconds tell. What was called cut before stays so."""
    quiet = [dataclasses.replace(post, silent_s=3.0 if post.host == "c" else 0.5) for post in posts({"ac", "bc"})]
    assert judge_nodes(quiet) == ()
    (found,) = judge_nodes(quiet, known_cut=frozenset("c"))
    assert (found.code, found.hosts) == ("L112", ("c",))


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
        mailbox.exchange("a/1", {"number": 1, "ranks": [0]})
        heard = open_mailbox(target).exchange("b", {"number": 5, "ranks": [1]})
        assert {host: post["ranks"] for host, post in heard.posts.items()} == {"a/1": [0], "b": [1]}
        assert heard.silent_s == {}, "nobody was seen to renew its post yet"
    (tmp_path / "posts" / "b.json").write_text('{"host": "b", "num')
    assert list(FolderMailbox(tmp_path / "posts").exchange("a/1", {"number": 2}).posts) == ["a/1"]


def test_what_a_post_does_not_say_any_more_is_gone_for_all_who_hear_it(tmp_path, collector):
    for target in (str(tmp_path / "posts"), collector):
        mailbox, hears = open_mailbox(target), open_mailbox(target)
        mailbox.exchange("a", {"number": 1, "is_between": True})
        assert hears.exchange("b", {"number": 1}).posts["a"]["is_between"] is True
        mailbox.exchange("a", {"number": 2})
        assert hears.exchange("b", {"number": 2}).posts["a"].get("is_between") is None
        mailbox.exchange("a", {"number": 3, "is_between": True})
        open_mailbox(target).exchange("a", {"number": 4})
        assert hears.exchange("b", {"number": 3}).posts["a"].get("is_between") is None, "another writer of the host"


def test_a_collector_tells_of_the_hosts_that_have_not_written_for_a_while_and_of_no_other():
    office = PostOffice("one")

    def take(host: str, number: int, now_s: float) -> dict[str, float]:
        letter = {"host": host, "writer": host, "number": number, "is_whole": True, "changes": {}}
        return office.take(letter, now_s=now_s)["silent_s"]

    for now_s, host in ((0.0, "a"), (0.5, "b"), (1.0, "c")):
        assert take(host, 1, now_s) == {}
    assert take("a", 2, 3.5) == {"b": 3.0, "c": 2.5}
    assert take("c", 2, 4.0) == {"b": 3.5}
    assert take("b", 2, 6.0) == {"a": 2.5}
    assert take("b", 2, 7.0) == {"a": 3.5, "c": 3.0}, "a late copy is no news of its host"


def test_a_collector_refuses_what_is_no_post(collector):
    for body in (b"[]", b"{", b'{"number": 1}'):
        request = urllib.request.Request(collector, data=body)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        refused.value.close()
        assert refused.value.code == 400
    assert open_mailbox(collector).exchange("a", {}).posts == {"a": {"host": "a"}}


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


# -- several hosts as one ----------------------------------------------------------------------------------------------


class FakeMailbox:
    """What every host of a test posts; all get all."""

    def __init__(self) -> None:
        self.posts: dict[str, dict] = {}

    def exchange(self, host, post, proposal=None):
        self.posts[host] = {"host": host, **post}
        return Heard(posts=dict(self.posts), silent_s=dict.fromkeys(self.posts, 0.0))


def agents(hosts: str, mailbox: FakeMailbox) -> dict[str, NodeAgent]:
    return {host: NodeAgent(Node(host=host, address="127.0.0.1", mailbox="posts"), mailbox=mailbox) for host in hosts}


def round_of(found: dict[str, NodeAgent], reports: dict[str, WatchReport]) -> dict[str, WatchReport]:
    return {host: agent.step(reports[host], ranks=[number]) for number, (host, agent) in enumerate(found.items())}


def test_looks_of_three_hosts_are_judged_as_one(monkeypatch):
    """Ranks 0 and 1 wait in the next all-reduce on their hosts; rank 2, on the third, was stopped."""
    held = dataclasses.replace(
        rank_snapshot(2, stack(1002, 30), ring(num_done=6, is_inside=False, world=3)),
        process=process(2, state=ProcessState.STOPPED),
    )
    ranks = {"a": waiting(0, world=3), "b": waiting(1, world=3), "c": held}
    ranks = {host: dataclasses.replace(each, host=host) for host, each in ranks.items()}

    def reports(at_s: float) -> dict[str, WatchReport]:
        snapshots = {
            host: dataclasses.replace(snapshot(each, taken_s=at_s), world_size=3) for host, each in ranks.items()
        }
        return {host: WatchReport(is_still=True, snapshot=each) for host, each in snapshots.items()}

    found = agents("abc", FakeMailbox())
    monkeypatch.setattr(node_agent, "SNAPSHOT_EVERY_S", 0.0)
    for number in range(5):
        said = round_of(found, reports(100.0 + 4 * number))
        told = [f for report in said.values() for f in report.findings if f.severity is Severity.ERROR]
        if told:
            break
    assert {(f.code, f.cause, f.culprit_ranks, f.waiting_ranks, f.hosts) for f in told} == {
        ("H125", Cause.STOPPED, (2,), (0, 1), ("c",))
    }


def test_looks_are_not_joined_while_a_host_goes_on():
    found = agents("ab", FakeMailbox())
    still = WatchReport(is_still=True, snapshot=snapshot(waiting(0, world=2)))
    for _ in range(4):
        said = round_of(found, {"a": still, "b": WatchReport()})
    assert [report.findings for report in said.values()] == [(), ()]


def test_of_many_hosts_one_tells_people_and_another_when_it_is_silent(monkeypatch):
    found = agents("abc", FakeMailbox())
    late = Finding(code="H140", severity=Severity.WARNING, kind=Kind.STRAGGLER, cause=Cause.SLOW_RANK,
                   certainty=Certainty.OBSERVED, message="rank 2 is waited for")  # fmt: skip
    for _ in range(3):
        said = round_of(found, dict.fromkeys("abc", WatchReport(findings=(late,))))
    assert [agent.is_speaker for agent in found.values()] == [True, False, False]
    assert [[f.code for f in report.findings] for report in said.values()] == [["H140"]] * 3
    assert found["c"].told_elsewhere == (), "what a host knows of its own ranks it tells itself"
    monkeypatch.setattr(node_agent, "judge_nodes", lambda read, **known: judge_nodes(posts({"ac", "bc"})))
    said = round_of(found, dict.fromkeys("abc", WatchReport()))
    assert {f.code for report in said.values() for f in report.findings} == {"L112"}
    assert [agent.told_elsewhere for agent in found.values()] == [(), ("L112",), ("L112",)]
    assert speaker(posts(set(), silent="a")) == "b"
    assert speaker(posts(set(), silent="abc")) is None


def test_slower_steps_for_which_no_rank_of_a_host_is_waited_for_are_told_by_one_host():
    found = agents("abc", FakeMailbox())
    slower = Finding(code="P104", severity=Severity.WARNING, kind=Kind.SLOWDOWN, cause=Cause.UNKNOWN,
                     certainty=Certainty.OBSERVED, message="steps take longer")  # fmt: skip
    named = dataclasses.replace(slower, culprit_ranks=(2,))
    for _ in range(2):
        said = round_of(found, {host: WatchReport(findings=(named if host == "c" else slower,)) for host in "abc"})
    assert [report.findings for report in said.values()] == [(slower,), (), (named,)]


def test_a_host_that_was_named_stays_named_when_one_that_showed_it_has_ended(monkeypatch):
    (agent,) = agents("a", FakeMailbox()).values()
    seen = []
    for hosts in ("abc", "ac", "a", "ac"):
        monkeypatch.setattr(
            node_agent,
            "judge_nodes",
            lambda read, hosts=hosts, **known: judge_nodes(posts({"ac", "bc"}, hosts=hosts)),
        )
        report = agent.step(WatchReport(), ranks=[0])
        seen.append(([f.hosts for f in report.findings], [f.hosts for f in report.resolved]))
    # In the third round the others have ended, and say in the fourth that they are there again.
    assert seen == [([("c",)], []), ([], []), ([], [("c",)]), ([("c",)], [])]
    agent._mailbox.posts["c"] = {"number": 9, "has_left": True}
    monkeypatch.setattr(node_agent, "judge_nodes", lambda read, **known: ())
    waits = agent.step(WatchReport(is_still=True), ranks=[0])
    assert (waits.findings, waits.resolved) == ((), ()), "it has ended its part, and the ranks here wait for it still"
    monkeypatch.setattr(node_agent, "judge_nodes", lambda read, **known: judge_nodes(posts(set())))
    assert [f.hosts for f in agent.step(WatchReport(), ranks=[0]).resolved] == [("c",)]


def test_a_host_that_was_left_out_is_not_judged_while_it_still_posts():
    mailbox, whom = FakeMailbox(), []
    node = Node(host="a", address="127.0.0.1", mailbox="posts", agreed=Agreed(out={"c": {}}))
    agent = NodeAgent(node, mailbox=mailbox)
    agent._links.know = lambda peers: whom.append(sorted(peers))
    for host in "bc":
        mailbox.posts[host] = {"address": "127.0.0.1", "port": 1, "ranks": [], "tried": {"a": ["", host == "b"]}}
    assert agent.step(WatchReport(is_still=True), ranks=[0]).findings == ()
    assert whom == [["b"]]


def test_a_host_without_a_mailbox_tells_people_itself():
    class Broken(FakeMailbox):
        def exchange(self, host, post, proposal=None):
            raise OSError("no route")

    (agent,) = agents("b", Broken()).values()
    report = WatchReport(is_still=True)
    assert agent.step(report, ranks=[0]) is report
    assert agent.is_speaker


@pytest.mark.parametrize("who", ["a", "b"])
def test_what_was_tried_in_vain_counts_while_the_listener_is_there_that_was_tried(who):
    """As an attempt begins, a host's listener goes from one process to the next: who tried it then learnt nothing."""
    mailbox = FakeMailbox()
    agent = NodeAgent(Node(host="a", address="127.0.0.1", mailbox="posts"), mailbox=mailbox)
    other = "ab".replace(who, "")
    tried = {other: ("first", False)}
    found = []
    for number, listener in enumerate(["first", "first", "next"]):
        if who == "a":
            agent._links.tried = lambda: tried
        else:
            agent._links.listener = listener
        mailbox.posts["b"] = {
            "number": number, "address": "127.0.0.1", "port": 1, "listener": listener, "ranks": [],
            "tried": tried if who == "b" else {},
        }  # fmt: skip
        report = agent.step(WatchReport(), ranks=[0])
        found.append([len(report.findings), len(report.resolved)])
    assert found == [[1, 0], [0, 0], [0, 1]]
