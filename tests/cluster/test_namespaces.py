"""Three and two hosts as network namespaces: whose link is cut in the middle of an all-reduce.

The job runs on one link, the agents post to a collector over another.
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


def start(hosts: Hosts, collector: str, folder: Path) -> None:
    """One supervised rank a host."""
    for index in range(len(hosts.names)):
        words = [
            sys.executable, "-m", "emberward", "run", "--runs", str(folder / f"runs{index}"), "--name", "job",
            "--act-after", "0", "--collector", collector, "--address", hosts.address(index), "--",
            sys.executable, JOB, str(GLOO_LIMIT_S),
        ]  # fmt: skip
        place = {
            "RANK": str(index), "WORLD_SIZE": str(len(hosts.names)), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29555", "GLOO_SOCKET_IFNAME": "eth0",
        }  # fmt: skip
        hosts.start(index, words, log=folder / f"host{index}.log", **place)


def findings(folder: Path, index: int) -> list[dict]:
    """What the host's own run folder says so far."""
    paths = (folder / f"runs{index}").glob("job/*/findings.jsonl")
    lines = [line for path in paths for line in path.read_text().splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def errors(folder: Path, index: int) -> list[dict]:
    return [found for found in findings(folder, index) if found["severity"] == "error"]


def under_way(folder: Path, index: int) -> bool:
    return "is under way" in (folder / f"host{index}.log").read_text()


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_of_three_hosts_the_one_that_was_cut_is_named(hosts, collector, tmp_path, wait_until):
    start(hosts, collector, tmp_path)
    wait_until(lambda: all(under_way(tmp_path, index) for index in range(3)), "three ranks under way", 120)
    hosts.cut(2)
    wait_until(lambda: all(errors(tmp_path, index) for index in range(3)), "a verdict on each host", GLOO_LIMIT_S - 10)
    for index in range(3):
        for found in errors(tmp_path, index):
            assert (found["code"], found["cause"], found["kind"]) == ("L112", "link_down", "link")
            assert (found["hosts"], found["culprit_ranks"], found["waiting_ranks"]) == (["node3"], [2], [0, 1])


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_of_two_hosts_both_are_named_and_no_culprit(hosts, collector, tmp_path, wait_until):
    start(hosts, collector, tmp_path)
    wait_until(lambda: all(under_way(tmp_path, index) for index in range(2)), "two ranks under way", 120)
    hosts.cut(1)
    wait_until(lambda: all(errors(tmp_path, index) for index in range(2)), "a verdict on each host", GLOO_LIMIT_S - 10)
    for index in range(2):
        for found in errors(tmp_path, index):
            assert (found["code"], found["cause"], found["kind"]) == ("L112", "link_down", "link")
            assert (found["hosts"], found["culprit_ranks"]) == (["node1", "node2"], [])
