"""Who a rank is, from what torchrun and srun say."""

import pytest

from emberward.findings import ConfigError
from emberward.rank._place import first_host, read_place

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "1234", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_ID": "1528763", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_STEP_NODELIST": "jean-zay-iam[01-34,36-49]", "SLURM_NTASKS": "16", "SLURM_NNODES": "4",
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
    assert 20000 <= place.port < 32768
    assert not place.is_restart


def test_another_step_and_another_job_meet_elsewhere():
    ports = {
        read_place({**SRUN, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}, host="here").port
        for job in range(7, 17)
        for step in range(31)
    }
    assert len(ports) == 10 * 31


def test_a_requeued_job_is_the_same_launch_again():
    first, again = (read_place({**SRUN, **more}, host="here") for more in ({}, {"SLURM_RESTART_COUNT": "1"}))
    assert again.is_restart
    assert (first.launch, first.port) == (again.launch, again.port)


def test_a_restart_by_our_launcher_is_one_and_its_first_start_is_none():
    ours = {**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "0", "EMBERWARD_SUPERVISED": "1"}
    assert read_place({**ours, "EMBERWARD_RELAUNCHED": "1"}, host="here").is_restart
    assert not read_place({**ours, "EMBERWARD_RELAUNCHED": "0"}, host="here").is_restart
    # A word that a shell inherited from somewhere says nothing about a job of torchrun's.
    inherited = {**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "0", "EMBERWARD_RELAUNCHED": "1"}
    assert not read_place(inherited, host="here").is_restart


def test_nodes_with_different_numbers_of_tasks():
    uneven = {**SRUN, "SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_TASKS_PER_NODE": "3(x2),1"}
    sizes = [read_place({**uneven, "SLURM_NODEID": str(node)}, host="here").local_world_size for node in range(3)]
    assert sizes == [3, 3, 1]
    with pytest.raises(ConfigError) as caught:
        read_place({**uneven, "SLURM_NODEID": "3"}, host="here")
    assert caught.value.code == "L103"


BATCH = {name: SRUN[name] for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_NTASKS")}


@pytest.mark.parametrize("step", [None, "4294967291", "4294967290"])
def test_outside_srun_a_job_of_many_tasks_is_refused_and_one_of_one_is_a_rank_alone(step):
    environment = BATCH if step is None else {**BATCH, "SLURM_STEP_ID": step}
    with pytest.raises(ConfigError, match="srun did not start this program") as caught:
        read_place(environment, host="here")
    assert caught.value.code == "L103"
    assert read_place({**environment, "SLURM_NTASKS": "1"}, host="here").world_size == 1
    assert read_place({**environment, **TORCHRUN}, host="here").world_size == 8


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
    [
        ("node7", "node7"),
        ("node[3,5-9]", "node3"),
        ("a[01-34,36-49],b2", "a01"),
        ("x1,x2", "x1"),
        ("r[0-3]-n[08-9],z", "r0-n08"),
        ("a[1-2]-ib", "a1-ib"),
    ],
)
def test_first_host_of_a_node_list(node_list, host):
    assert first_host(node_list) == host
