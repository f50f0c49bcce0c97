"""Who a rank is, from what torchrun and srun say."""

import pytest

from emberward.findings import ConfigError
from emberward.rank._place import first_host, read_place

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "1234", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0", "SLURM_NNODES": "2", "SLURM_JOB_ID": "1528763",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "jean-zay-iam[01-34,36-49]",
}  # fmt: skip


def test_torchruns_variables():
    place = read_place(TORCHRUN, host="here")
    assert (place.rank, place.world_size, place.local_rank, place.local_world_size) == (5, 8, 1, 4)
    assert (place.master, place.port, place.attempt) == ("10.0.0.1", 1234, "2")
    assert not place.must_host_store
    assert not place.is_supervised


def test_rank_zero_serves_the_store_only_without_an_agent():
    zero = {**TORCHRUN, "RANK": "0"}
    assert not read_place(zero, host="here").must_host_store
    assert read_place({**zero, "TORCHELASTIC_USE_AGENT_STORE": "False"}, host="here").must_host_store


def test_sruns_variables():
    place = read_place({**SRUN, "EMBERWARD_SUPERVISED": "1"}, host="here")
    assert (place.rank, place.world_size, place.local_world_size, place.master) == (0, 8, 4, "jean-zay-iam01")
    assert place.must_host_store
    assert place.is_supervised
    other = read_place({**SRUN, "SLURM_PROCID": "7"}, host="there")
    assert (other.port, other.master) == (place.port, place.master)
    assert 20000 <= place.port < 40000


def test_alone_without_a_launcher():
    place = read_place({}, host="here")
    assert (place.rank, place.world_size, place.port) == (0, 1, 0)
    assert place.must_host_store


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "MASTER_PORT"])
def test_an_incomplete_environment_is_refused_by_name(missing):
    with pytest.raises(ConfigError, match=missing) as caught:
        read_place({key: value for key, value in TORCHRUN.items() if key != missing}, host="here")
    assert caught.value.code == "L103"


@pytest.mark.parametrize(
    ("node_list", "host"),
    [("node7", "node7"), ("node[3,5-9]", "node3"), ("a[01-34,36-49],b2", "a01"), ("x1,x2", "x1")],
)
def test_first_host_of_a_node_list(node_list, host):
    assert first_host(node_list) == host
