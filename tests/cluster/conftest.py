"""The cluster that all tests of this folder share."""

import pytest
from ranks.runs import write_text

from cluster.slurm import Cluster


@pytest.fixture(scope="session")
def cluster():
    cluster = Cluster(num_nodes=2)
    try:
        cluster.start()
        yield cluster
    finally:
        left = cluster.stop()
    assert not left, left
    assert not cluster.processes()


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("data") / "text")
