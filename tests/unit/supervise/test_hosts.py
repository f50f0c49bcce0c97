"""The hosts of a run: how they are named, reached and asked, and which take part."""

import dataclasses
import sys

import pytest

from emberward.findings import ConfigError
from emberward.supervise import Host, Launcher, Team, ask_hosts, hosts_of, launcher_of, pick_hosts, without
from emberward.supervise._hosts import ask_until_answered, lost_hosts, script_for

A, B, C, D = (Host(name=name, address=name, boot=f"boot of {name}") for name in "abcd")
TEAM = Team(hosts=(A, B, C), spares=(D,), ranks_per_host=8, min_hosts=2, launcher=launcher_of("local"))


def names(hosts) -> str:
    return "".join(host.name for host in hosts)


def test_a_host_has_the_address_that_was_given_else_its_name():
    assert hosts_of("a, b=10.0.0.2") == (Host(name="a", address="a"), Host(name="b", address="10.0.0.2"))


@pytest.mark.parametrize("text", ["", "a,,b", "a,b,a", "=10.0.0.1"])
def test_hosts_that_are_not_understood_are_refused(text):
    with pytest.raises(ConfigError, match="C113 the hosts are not understood"):
        hosts_of(text)


@pytest.mark.parametrize(
    ("launcher", "command"),
    [
        ("local", ("echo", "a b")),
        (
            "ssh",
            (
                *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"),
                *("-o", "LogLevel=ERROR", "n1", "echo 'a b'"),
            ),
        ),
        ("ssh -F my {host}", ("ssh", "-F", "my", "n1", "echo 'a b'")),
        ("docker exec {host}", ("docker", "exec", "n1", "echo", "a b")),
    ],
)
def test_a_launcher_puts_its_words_before_the_command(launcher, command):
    assert launcher_of(launcher).command("n1", ("echo", "a b")) == command


def test_a_launcher_without_a_host_is_refused():
    with pytest.raises(ConfigError, match="C113 the launcher is not understood"):
        launcher_of("rsh")


def test_what_ranks_need_of_our_environment_goes_along_and_no_secret():
    environment = {"NCCL_DEBUG": "INFO", "WANDB_API_KEY": "secret", "OMP_NUM_THREADS": "1"}
    script = script_for(("run", "it"), folder="/data/my runs", environment=environment)
    unset = "-u RANK -u SLURM_PROCID -u OMPI_COMM_WORLD_RANK -u PMI_RANK -u PMIX_RANK"
    assert script == ("sh", "-c", f"cd '/data/my runs' && exec env {unset} NCCL_DEBUG=INFO OMP_NUM_THREADS=1 run it")


def test_hosts_that_answer_are_no_alarm(tmp_path):
    answers = ask_hosts(launcher_of("local"), [A, B], python=sys.executable, folder=tmp_path)
    assert answers["a"] == answers["b"]
    assert len(answers["a"]) == 36
    here = [dataclasses.replace(host, boot=answers["a"]) for host in (A, B)]
    assert lost_hosts(here, answers) == ()


def test_a_host_that_cannot_be_used_is_named_with_its_launchers_words(tmp_path):
    key = Launcher(words=("sh", "-c", 'echo "{host}: Permission denied (publickey)." >&2; exit 255'), is_shell=False)
    refused = ask_hosts(key, [A], python=sys.executable, folder=tmp_path)["a"]
    assert refused.exit_code == 2
    assert refused.text() == (
        "L123 a host cannot be used\n"
        "  where     a\n"
        "  expected  a host that starts commands, with this Python and this folder on a shared file system\n"
        "  found     a: Permission denied (publickey).\n"
        "  next      ssh a true"
    )
    assert [found.message for found in lost_hosts([A], {"a": refused, "b": "a boot"})] == [
        "host a does not answer any more: a: Permission denied (publickey)."
    ]
    elsewhere = ask_hosts(launcher_of("local"), [A], python="/no/python", folder=tmp_path)["a"]
    assert elsewhere.found == f"it has no /no/python, or does not see {tmp_path} (exit code 1)"
    absent = ask_hosts(launcher_of("no-such-program {host}"), [A], python=sys.executable, folder=tmp_path)["a"]
    assert "No such file or directory" in absent.found


def test_where_no_host_answers_the_way_to_ask_is_gone_and_no_host(tmp_path):
    """A controller of SLURM that is away: the next answer counts, of a host or, where that takes too long, none."""
    away, back = "srun: error: Unable to contact slurm controller", tmp_path / "back"
    launcher = Launcher(
        words=("sh", "-c", f'[ -e {back} ] && exec "$@"; touch {back}; echo "{away}" >&2; exit 1', "{host}"),
        is_shell=False,
    )
    refused = ask_hosts(launcher, [A], python=sys.executable, folder=tmp_path)
    assert refused["a"].found == away
    assert lost_hosts([A], refused) == ()
    back.unlink()
    answers = ask_until_answered(launcher, [A], python=sys.executable, folder=tmp_path, is_stopped=lambda: False)
    assert len(answers["a"]) == 36
    back.unlink()
    asked = ask_until_answered(launcher, [A], python=sys.executable, folder=tmp_path, is_stopped=lambda: True)
    assert asked["a"].found == away


def test_a_host_that_slurm_had_no_room_to_ask_is_asked_again_and_not_lost(tmp_path):
    """As for a moment after its controller came back, while the ended attempt's steps still hold the job's memory."""
    full, free = (
        "srun: error: Unable to create step for job 1: Memory required by task is not available",
        tmp_path / "f",
    )
    text = f'[ "$0" = b ] || [ -e {free} ] && exec "$@"; touch {free}; echo "{full}" >&2; exit 1'
    launcher = Launcher(words=("sh", "-c", text, "{host}"), is_shell=False)
    answers = ask_hosts(launcher, [A, B], python=sys.executable, folder=tmp_path)
    assert answers["a"].found == full
    assert lost_hosts([A, dataclasses.replace(B, boot=answers["b"])], answers) == ()
    free.unlink()
    asked = ask_until_answered(launcher, [A, B], python=sys.executable, folder=tmp_path, is_stopped=lambda: False)
    assert asked["a"] == asked["b"] == answers["b"]


def test_a_host_that_has_booted_again_is_lost_and_one_that_was_never_asked_is_not():
    (found,) = lost_hosts([A, B], {"a": "another boot", "b": "boot of b"})
    assert (found.code, found.hosts, found.message) == ("L113", ("a",), "host a has booted again while it trained")
    assert lost_hosts([dataclasses.replace(A, boot=None)], {"a": "a boot"}) == ()


def test_a_spare_takes_the_place_of_a_lost_host_then_fewer_go_on_then_none():
    three = without(TEAM, {"b"})
    assert (names(three.hosts), names(three.spares), three.num_ranks) == ("adc", "", 24)
    two = without(three, {"a"})
    assert (names(two.hosts), two.num_ranks) == ("dc", 16)
    with pytest.raises(ConfigError, match="L123 too few hosts can be used"):
        without(two, {"d"})
    assert pick_hosts([A, B], wanted=3, min_hosts=2) == ((A, B), ())
