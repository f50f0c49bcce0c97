"""Which link is slow, from how long hosts take to fetch from each other."""

import contextlib
import itertools
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from emberward.findings import Cause, Kind, Severity
from emberward.supervise._connections import Connection, Counts, counts_of, read_connections
from emberward.supervise._nodes import NodePost
from emberward.supervise._probe import (
    FIRST_LOAD_BYTES,
    LOAD_S,
    MAX_LOAD_BYTES,
    Listener,
    PeerAddress,
    Prober,
    fetch_s,
    info_of,
    next_size,
)
from emberward.supervise._sent_again import KEPT_S, MIN_PARTS, Sent, SentAgain
from emberward.supervise._slow_links import HOLD_S, LinkWatch, judge_links, links_beside


def posts(
    slow: dict[str, float], *, hosts: str = "abc", usual_s: float = 0.002, lost: dict[str, float] | None = None
) -> list[NodePost]:
    """Hosts that fetch from each other; `slow` and `lost` have the cells, sender first, that are otherwise."""
    return [
        NodePost(
            host=getter,
            ranks=(number,),
            reached={},
            fetch_s={sender: slow.get(sender + getter, usual_s) for sender in hosts if sender != getter},
            lost={other: (lost or {}).get(getter + other, 0.0004) for other in hosts if other != getter},
        )
        for number, getter in enumerate(hosts)
    ]


def test_a_host_with_a_slow_link_is_a_warning_in_these_words():
    (found,) = judge_links(posts({"ca": 0.04, "cb": 0.05}))
    assert (found.code, found.severity, found.kind, found.cause) == (
        "H143",
        Severity.WARNING,
        Kind.LINK,
        Cause.SLOW_LINK,
    )
    assert (found.hosts, found.culprit_ranks, found.waiting_ranks) == (("c",), (2,), (0, 1))
    assert found.message == "the link of host c is slow: what it sends takes 50 ms, between others 2 ms"
    assert found.evidence == ("a to c: 2 ms", "b to c: 2 ms", "c to a: 40 ms", "c to b: 50 ms")


@pytest.mark.parametrize(
    ("slow", "words"),
    [
        ({"ac": 0.04, "bc": 0.04}, "what it gets takes"),
        ({"ac": 0.04, "bc": 0.04, "ca": 0.04, "cb": 0.04}, "what it sends and gets takes"),
    ],
)
def test_both_ways_of_a_link_are_told_apart(slow, words):
    (found,) = judge_links(posts(slow))
    assert found.hosts == ("c",)
    assert words in found.message


def test_of_two_hosts_both_are_named_and_no_culprit():
    (found,) = judge_links(posts({"ab": 0.04}, hosts="ab"))
    assert (found.hosts, found.culprit_ranks) == (("a", "b"), ())
    assert found.message == (
        "the link between hosts a and b is slow: 40 ms, others 2 ms; whose end it is cannot be told from two hosts"
    )


def test_a_slow_link_is_said_once_all_tries_agree():
    """The first of two hosts to notice makes it look like a link between two."""
    watch = LinkWatch()
    half, whole = posts({"cb": 0.05}), posts({"ca": 0.04, "cb": 0.05})
    assert [watch.poll(each, now_s=now_s) for each, now_s in ((half, 10.0), (half, 12.0), (whole, 13.0))] == [()] * 3
    assert [found.hosts for found in watch.poll(whole, now_s=13.0 + HOLD_S)] == [("c",)]
    assert watch.poll(posts({}), now_s=30.0) == ()


def test_of_two_hosts_that_are_fast_with_others_it_is_said_once_no_load_from_before_counts():
    watch, alone = LinkWatch(), LinkWatch()
    between, two = posts({"cb": 0.05}), posts({"ab": 0.05}, hosts="ab")
    assert watch.poll(between, now_s=10.0) == alone.poll(two, now_s=10.0) == ()
    assert watch.poll(between, now_s=9.0 + KEPT_S) == ()
    assert [found.hosts for found in watch.poll(between, now_s=10.0 + KEPT_S)] == [("b", "c")]
    assert [found.hosts for found in alone.poll(two, now_s=10.0 + HOLD_S)] == [("a", "b")]


@pytest.mark.parametrize("missing", ["cb", "ba"])
def test_a_slow_cell_is_a_pair_only_where_the_rest_of_its_row_and_column_is_known(missing):
    """Of three hosts: what would tell whether all is slow that c sends, or all that a gets."""
    slow = posts({"ca": 0.05})
    part = [
        replace(each, fetch_s=without(each.fetch_s, missing[0] if each.host == missing[1] else "")) for each in slow
    ]
    assert judge_links(part) == ()
    assert [found.hosts for found in judge_links(slow)] == [("a", "c")]


def without(fetch_s: Mapping[str, float], host: str) -> dict[str, float]:
    return {sender: seconds for sender, seconds in fetch_s.items() if sender != host}


def test_one_slow_pair_among_four_is_no_host_s_fault():
    (found,) = judge_links(posts({"bd": 0.04, "db": 0.04}, hosts="abcd"))
    assert (found.hosts, found.culprit_ranks) == (("b", "d"), ())
    assert found.message.endswith("both are fast with others")


def test_a_link_at_half_speed_is_named():
    (found,) = judge_links(posts({"ca": 0.07, "cb": 0.068}, usual_s=0.034))
    assert found.hosts == ("c",)
    assert found.message == "the link of host c is slow: what it sends takes 70 ms, between others 34 ms"


def test_what_a_host_slow_in_its_own_work_gets_slowly_is_no_link_s_fault():
    links = judge_links(posts({"ca": 0.07, "cb": 0.068}, usual_s=0.034))
    slow = replace(links[0], code="H144", cause=Cause.SLOW_RANK)
    assert links_beside((slow,), links) == ()
    assert links_beside((replace(slow, hosts=("a",)),), links) == links
    assert links_beside((), links, maybe=frozenset("c")) == ()
    pair = judge_links(posts({"bd": 0.04, "db": 0.04}, hosts="abcd"))
    assert links_beside((), pair, maybe=frozenset("b")) == pair
    assert links_beside((replace(slow, hosts=("b",)),), pair) == pair


def test_a_link_that_loses_packets_is_named_once_and_its_loss_told():
    (found,) = judge_links(posts({"ca": 0.07, "cb": 0.07}, usual_s=0.034, lost={"ca": 0.011, "cb": 0.009}))
    assert (found.code, found.cause, found.hosts) == ("H143", Cause.SLOW_LINK, ("c",))
    assert found.message == (
        "the link of host c loses packets: 1.1% of what it sends comes only when it is sent again, between others 0.0%"
    )
    assert "c to a: 1.1%" in found.evidence


def test_a_load_grows_until_it_can_be_told_from_noise():
    """A link of 500 Mb/s: the largest takes 34 ms."""
    sizes = [FIRST_LOAD_BYTES]
    while (larger := next_size(sizes[-1], sizes[-1] * 8 / 500e6)) > sizes[-1]:
        sizes.append(larger)
    assert sizes[-1] == MAX_LOAD_BYTES
    assert next_size(FIRST_LOAD_BYTES, LOAD_S) == FIRST_LOAD_BYTES


def test_what_was_sent_is_counted_by_the_kernel_with_what_was_sent_again(wait_until):
    listener = Listener("127.0.0.1")
    for _ in range(MIN_PARTS):
        fetch_s("127.0.0.1", listener.port, FIRST_LOAD_BYTES, from_address="127.0.0.1")
    wait_until(listener.sent.shares, "what was lost")
    assert 0 <= listener.sent.shares()["127.0.0.1"] <= 0.05
    listener.close()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
        peer.sendall(bytes(FIRST_LOAD_BYTES // 4))
        sent = counts_of(info_of(peer))
    assert sent is not None
    assert (sent.segments >= 1, sent.again) == (True, 0)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_the_kernel_lists_what_another_s_connection_sent(family, wait_until):
    """Each byte is a segment of its own."""
    place = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with (
        socket.create_server((place, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as peer,
    ):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken, _ = server.accept()
        own = peer.getsockname()[1]

        def segments() -> int:
            return next(each.counts.segments for each in read_connections() if each.port == own)

        before = segments()
        for _ in range(20):
            peer.sendall(b".")
            taken.recv(1)
        wait_until(lambda: segments() == before + 20, "what was sent")
        (each,) = [each for each in read_connections() if each.port == own]
        assert (each.peer, each.counts.again) == (server.getsockname()[0], 0)
        taken.close()


def test_a_segment_that_was_sent_again_in_vain_is_not_lost():
    """struct tcp_info: sent again at byte 100, segments with data at 156, told as had already at 216."""
    info = bytearray(220)
    for place, value in ((100, 7), (156, 1000), (216, 5)):
        info[place : place + 4] = value.to_bytes(4, sys.byteorder)
    assert counts_of(bytes(info)) == Counts(segments=1000, again=2)
    assert counts_of(bytes(info[:160])) == Counts(segments=1000, again=7), "a kernel that does not tell"
    assert counts_of(bytes(info[:104])) is None


def snapshots(again: list[int], segments: int) -> SentAgain:
    """What the job's connection to 10.0.0.2 sent, looked at once a second, with so many sent again each time."""
    kept, now_s = SentAgain(), time.monotonic() - len(again)
    sums = (0, *itertools.accumulate(again))
    for number, total in enumerate(sums):
        counts = Counts(segments=5000 + number * segments, again=900 + total)
        kept.count([Connection(cookie=1, port=7, peer="10.0.0.2", counts=counts)], now_s=now_s + number)
    return kept


@pytest.mark.parametrize(
    ("again", "segments", "share"),
    [([10] * 10, 1000, 0.01), ([100] + [0] * 9, 1000, 0.0), ([1, 0] * 30, 50, 0.01), ([9] * 5, 1000, None)],
    ids=["a job that loses 1%", "one second in a full queue", "few segments a second", "too few seconds"],
)
def test_the_job_s_own_connections_tell_what_their_link_loses(again, segments, share):
    found = snapshots(again, segments).shares()
    assert found == ({} if share is None else {"10.0.0.2": pytest.approx(share)})


@pytest.mark.parametrize(("bad", "share"), [(1, 0.0), (2, 0.0), (4, 0.02), (6, 0.02)])
def test_one_load_that_met_a_full_queue_is_no_loss_of_the_link(bad, share):
    kept = SentAgain()
    now_s = time.monotonic()
    loads = [Sent(segments=1000, again=20 if number < bad else 0, at_s=now_s) for number in range(MIN_PARTS)]
    old = [Sent(segments=1000, again=500, at_s=now_s - KEPT_S - 1)] * MIN_PARTS
    kept.take("10.0.0.2", *old)
    assert kept.shares() == {}
    kept.take("10.0.0.2", *loads)
    assert kept.shares() == {"10.0.0.2": share}


PAUSE_S = 0.5
ALIKE = {
    "all are fast": posts({}),
    "all are slow": posts({}, usual_s=0.2),
    "a little slower": posts({"ca": 0.006, "cb": 0.006}),
    "only some news": [NodePost(host="a", reached={}, fetch_s={"b": 0.5}), NodePost(host="b", reached={})],
    "all lose a little": posts({}, lost={x + y: 0.006 for x in "abc" for y in "abc"}),
    "one cell within noise": posts({}, lost={"ca": 0.003, "cb": 0.002}),
    "one cell of two on a busy host": posts({"ab": 0.06}, hosts="ab", usual_s=0.034),
    "half of the hosts": posts({x + y: 0.05 for x in "cd" for y in "abcd" if x != y}, hosts="abcd"),
}


@pytest.mark.parametrize("what", ALIKE)
def test_what_is_no_slow_link(what):
    assert judge_links(ALIKE[what]) == ()


def test_a_load_is_fetched_and_what_is_not_there_is_none(wait_until):
    listener = Listener("127.0.0.1")
    seconds = fetch_s("127.0.0.1", listener.port, MAX_LOAD_BYTES, from_address="127.0.0.1", limit_s=30.0)
    assert seconds is not None
    assert seconds > 0
    prober = Prober("127.0.0.1")
    prober.know({"b": PeerAddress("127.0.0.1", listener.port, "first")})
    wait_until(lambda: prober.tried() == {"b": ("first", True)}, "a first try")
    assert prober.fetched() == {}, "a few tries tell nothing yet"
    listener.close()
    assert fetch_s("127.0.0.1", listener.port, MAX_LOAD_BYTES, from_address="127.0.0.1", limit_s=1.0) is None


def test_a_load_that_its_sender_gives_late_is_no_slow_link(monkeypatch):
    """The sender waits for a while between two halves, as a host does whose processor others use."""
    gate, kept = threading.Event(), Listener._answer

    class Late:
        """A connection that gives half of a load, and the rest when the gate opens."""

        def __init__(self, connection):
            self._connection = connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._connection.close()

        def sendall(self, data):
            self._connection.sendall(data[: len(data) // 2])
            if len(data) == FIRST_LOAD_BYTES:
                threading.Timer(PAUSE_S, gate.set).start()
                gate.wait(30)
            self._connection.sendall(data[len(data) // 2 :])

    monkeypatch.setattr(Listener, "_answer", lambda self, connection: kept(self, Late(connection)))
    listener = Listener("127.0.0.1")
    began_s = time.monotonic()
    seconds = fetch_s("127.0.0.1", listener.port, FIRST_LOAD_BYTES, from_address="127.0.0.1", limit_s=30.0)
    assert time.monotonic() - began_s >= PAUSE_S
    assert seconds is not None
    assert seconds < PAUSE_S / 2
    listener.close()


def test_a_fetch_takes_as_long_as_its_link_lets_it():
    """Through a relay that hands on 64 KiB at most every 10 ms: a load that fits into one piece would not show it."""
    listener, pause_s, chunk = Listener("127.0.0.1"), 0.01, 1 << 16
    relay = socket.create_server(("127.0.0.1", 0))

    def hand_on():
        with relay.accept()[0] as getter, socket.create_connection(("127.0.0.1", listener.port)) as sender:
            threading.Thread(target=shovel, args=(getter, sender, 0.0), daemon=True).start()
            shovel(sender, getter, pause_s)

    def shovel(source, target, pause_s):
        with contextlib.suppress(OSError):
            while part := source.recv(chunk):
                target.sendall(part)
                time.sleep(pause_s)

    threading.Thread(target=hand_on, daemon=True).start()
    seconds = fetch_s("127.0.0.1", relay.getsockname()[1], MAX_LOAD_BYTES, from_address="127.0.0.1", limit_s=30.0)
    assert seconds is not None
    assert seconds >= 2 * pause_s
    relay.close()
    listener.close()
