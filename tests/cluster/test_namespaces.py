"""Three and two hosts as network namespaces: whose link is cut in the middle of an all-reduce, and who goes on.

The job runs on one link, the agents post over another way: to a collector, or to a folder that all share.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts import Hosts

JOB = str(Path(__file__).with_name("link_job.py"))
GLOO_LIMIT_S = 60
"""Longer than the verdict may take: the job's own time-out must not end it first."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture
def hosts(request):
    made = Hosts(request.param)
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def collector(hosts, wait_until):
    """The URL of a collector that listens on the control link alone."""
    with socket.create_server((hosts.control, 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "emberward.supervise.collector", f"{hosts.control}:{port}"])

    def answers() -> bool:
        with socket.socket() as client:
            client.settimeout(1.0)
            return client.connect_ex((hosts.control, port)) == 0

    try:
        wait_until(answers, "the collector")
        yield f"http://{hosts.control}:{port}/"
    finally:
        process.kill()
        process.wait()


def start_all(hosts: Hosts, collector: str, folder: Path, *more: str) -> list[subprocess.Popen]:
    """One supervised rank a host."""
    return [start(hosts, collector, folder, index, *more) for index in range(len(hosts.names))]


def start(hosts: Hosts, collector: str, folder: Path, index: int, *more: str) -> subprocess.Popen:
    """The supervised rank of one host."""
    words = [
        sys.executable, "-m", "emberward", "run", "--runs", str(folder / f"runs{index}"), "--name", "job",
        *more, "--collector", collector, "--address", hosts.address(index), "--",
        sys.executable, JOB, str(GLOO_LIMIT_S),
    ]  # fmt: skip
    place = {
        "RANK": str(index), "WORLD_SIZE": str(len(hosts.names)), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29555", "GLOO_SOCKET_IFNAME": "eth0",
    }  # fmt: skip
    return hosts.start(index, words, log=folder / f"host{index}.log", **place)


def findings(folder: Path, index: int) -> list[dict]:
    """What the host's own run folder says so far."""
    paths = (folder / f"runs{index}").glob("job/*/findings.jsonl")
    lines = [line for path in paths for line in path.read_text().splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def errors(folder: Path, index: int) -> list[dict]:
    return [found for found in findings(folder, index) if found["severity"] == "error"]


def under_way(folder: Path, index: int) -> bool:
    return "is under way" in (folder / f"host{index}.log").read_text()


def attempts(folder: Path, index: int) -> list[dict]:
    """The ends of the host's attempts."""
    (path,) = (folder / f"runs{index}").glob("job/*/attempts.jsonl")
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["event"] == "end"]


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_of_three_hosts_the_one_that_was_cut_is_named_and_the_others_go_on_without_it(hosts, tmp_path, wait_until):
    posts = str(tmp_path / "posts")
    more = ("--act-after", "1", "--restarts", "2")
    started = start_all(hosts, posts, tmp_path, *more)
    wait_until(lambda: all(under_way(tmp_path, index) for index in range(3)), "three ranks under way", 120)
    hosts.cut(2)
    wait_until(lambda: all(process.poll() is not None for process in started), "the end on each host", 120)
    for index in range(3):
        found, *others = errors(tmp_path, index)
        assert others == []
        assert (found["code"], found["cause"], found["kind"]) == ("L112", "link_down", "link")
        assert (found["hosts"], found["culprit_ranks"], found["waiting_ranks"]) == (["node3"], [2], [0, 1])
    codes = [[end["code"] for end in attempts(tmp_path, index)] for index in range(3)]
    assert codes == [["L112", None], ["L112", None], ["L112"]]
    assert [process.returncode == 0 for process in started] == [True, True, False]
    assert "node3 was named (L112) and takes no part any more" in (tmp_path / "host2.log").read_text()
    again = start(hosts, posts, tmp_path, 2, *more)
    wait_until(lambda: again.poll() is not None, "the refusal", 60)
    assert again.returncode == 2
    assert (
        f"L114 this host is left out\n  where     {posts}/ledger/node3/0001.json"
        in (tmp_path / "host2.log").read_text()
    )


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_of_two_hosts_both_are_named_and_no_culprit(hosts, collector, tmp_path, wait_until):
    start_all(hosts, collector, tmp_path, "--act-after", "0")
    wait_until(lambda: all(under_way(tmp_path, index) for index in range(2)), "two ranks under way", 120)
    hosts.cut(1)
    wait_until(lambda: all(errors(tmp_path, index) for index in range(2)), "a verdict on each host", GLOO_LIMIT_S - 10)
    for index in range(2):
        for found in errors(tmp_path, index):
            assert (found["code"], found["cause"], found["kind"]) == ("L112", "link_down", "link")
            assert (found["hosts"], found["culprit_ranks"]) == (["node1", "node2"], [])


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_a_slow_link_is_named_and_then_a_host_that_is_gone(hosts, collector, tmp_path, wait_until):
    """The link of node2 is slow for a while, and node2 is not named."""
    tell = f"sh -c 'cat >> {tmp_path}/told-$(hostname)'"
    start_all(hosts, collector, tmp_path, "--act-after", "0", "--notify", tell)
    wait_until(lambda: all(under_way(tmp_path, index) for index in range(3)), "three ranks under way", 120)
    hosts.slow_down(1)
    began = heartbeat(tmp_path, 1)
    wait_until(lambda: heartbeat(tmp_path, 1) >= began + 4, "four seconds of node2")
    hosts.speed_up(1)
    hosts.slow_down(2)

    def slow(index: int) -> list[dict]:
        return [found for found in findings(tmp_path, index) if found["code"] == "H143"]

    wait_until(lambda: all(slow(index) for index in range(3)), "a word on the slow link from each host", 90)
    for index in range(3):
        for found in slow(index):
            assert (found["cause"], found["kind"], found["severity"]) == ("slow_link", "link", "warning")
            assert (found["hosts"], found["culprit_ranks"], found["waiting_ranks"]) == (["node3"], [2], [0, 1])
    assert [errors(tmp_path, index) for index in range(3)] == [[], [], []]

    hosts.lose(2)
    wait_until(lambda: all(errors(tmp_path, index) for index in range(2)), "a verdict on each host", GLOO_LIMIT_S - 10)
    for index in range(2):
        for found in errors(tmp_path, index):
            assert (found["code"], found["cause"], found["kind"]) == ("L113", "host_down", "link")
            assert (found["hosts"], found["culprit_ranks"], found["waiting_ranks"]) == (["node3"], [2], [0, 1])
    told = [told_by(tmp_path, index) for index in range(2)]
    wait_until(lambda: "L113" in told_by(tmp_path, 0), "the first host to tell people", 20)
    assert "L113" not in told_by(tmp_path, 1), f"of all hosts one tells: {told}"


def heartbeat(folder: Path, index: int) -> float:
    """When the host's supervisor wrote last."""
    (path,) = (folder / f"runs{index}").glob("job/*/supervisor.json")
    return json.loads(path.read_text())["time_unix"]


def told_by(folder: Path, index: int) -> str:
    """What the host's command of --notify was given."""
    path = folder / f"told-node{index + 1}"
    return path.read_text() if path.exists() else ""
