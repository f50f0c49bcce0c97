"""`emberward train --hosts` on namespaces: a host whose link loses packets, or whose processor is slow, is named, and a
spare takes over, bit by bit."""

import pytest

from cluster.slow_job import Fault, SlowJob

LIMIT_S = 120.0


@pytest.mark.timeout(600)
def test_a_host_whose_link_loses_one_packet_in_a_hundred_makes_room_for_a_spare(text, tmp_path, wait_until):
    """What the job's own sockets send again names it; a host that was slow for a few seconds before is not named."""
    job = SlowJob(tmp_path, text, hidden=32, num_spares=1)
    try:
        until_step(job, wait_until, 10)
        job.strike(2, Fault.BRIEF)
        until_step(job, wait_until, job.num_steps() + 10)
        job.heal(2)
        job.strike(1, Fault.LOSS)
        wait_until(lambda: job.ends() or job.process.poll() is not None, "the end of the attempt", LIMIT_S)
        host, lossy, third, spare = job.machines.hosts.names
        until_step(job, wait_until, job.num_steps() + 5)
        assert job.stop() == 75, job.said()
        (found,) = job.slow()
        assert (found["code"], found["cause"], found["hosts"]) == ("H143", "slow_link", [lossy])
        assert "loses packets" in found["message"]
        assert (job.ends()[0]["outcome"], job.ends()[0]["code"]) == ("stopped", "H143"), job.said()
        assert "stopped by the kill switch" not in job.said()
        assert f"without {lossy}, on {host}, {spare}, {third}" in job.said()
        made, straight = job.curves(wait_until)
        assert made == straight
    finally:
        job.close()


@pytest.mark.timeout(600)
def test_a_host_whose_processor_is_slow_makes_room_for_a_spare(text, tmp_path, wait_until):
    job = SlowJob(tmp_path, text, hidden=96, num_spares=1)
    try:
        until_step(job, wait_until, 10)
        job.strike(1, Fault.PROCESSOR)
        wait_until(lambda: job.ends() or job.process.poll() is not None, "the end of the attempt", LIMIT_S)
        host, slow, third, spare = job.machines.hosts.names
        until_step(job, wait_until, job.num_steps() + 5)
        assert job.stop() == 75, job.said()
        (found,) = job.slow()
        assert (found["code"], found["cause"], found["hosts"]) == ("H144", "slow_rank", [slow])
        assert (job.ends()[0]["outcome"], job.ends()[0]["code"]) == ("stopped", "H144"), job.said()
        assert f"without {slow}, on {host}, {spare}, {third}" in job.said()
        made, straight = job.curves(wait_until)
        assert made == straight
    finally:
        job.close()


def until_step(job: SlowJob, wait_until, step: int) -> None:
    wait_until(lambda: job.num_steps() >= step or job.process.poll() is not None, f"step {step}", LIMIT_S)
    assert job.process.poll() is None, job.said()
