"""`emberward train --hosts` over a real ssh: one curve however many hosts, and hosts that ssh does not let us use."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ports import reserve_port
from ranks.runs import curve

from cluster.jobs import only_run, runs_of

LIMIT_S = 120.0
STEPS = 8
HOSTS = ("alpha", "beta", "gamma", "delta")

_RECIPE = """
name: cluster
steps: {steps}
sample_tokens: 0
timeout_s: 100
model: {{num_layers: 1, hidden: 32, num_heads: 4, seq_len: 32}}
layout: {{dp: 4, tp: 1, pp: 1}}
batch: {{global_batch: 8, micro_batch: 2}}
optim: {{lr: 5e-3, warmup_samples: 0}}
evaluation: {{samples: 8}}
save: {{interval: 4, keep: 2}}
data: {{train: "{text}", held_out: 0.2, cache: "{cache}"}}
"""
_SSHD = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/own_key.pub
AuthenticationMethods publickey
StrictModes no
UsePAM no
"""
_SSH = """
Host {hosts}
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/own_key
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""


class Ssh:
    """An sshd on loopback with keys of its own, and the configuration that leads to it under four names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = reserve_port()
        for name in ("host_key", "own_key", "other_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, capture_output=True, timeout=30)
        key = " ".join((folder / "host_key.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}\n")
        (folder / "sshd_config").write_text(_SSHD.format(port=self.port, folder=folder))
        # Where sshd, started by hand, drops its rights; the package's service makes it at each boot.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (folder / "sshd.log").open("wb") as log:
            sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
            assert sshd is not None, "sshd is not installed: `make test-cluster` installs it"
            self.process = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)

    def is_up(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def config(self, name: str, **changes: str) -> Path:
        """A configuration of ssh, with other values for some of its words."""
        text = _SSH.format(hosts=" ".join(HOSTS), port=self.port, folder=self.folder)
        for old, new in changes.items():
            assert old in text
            text = text.replace(f"{self.folder}/{old}", f"{self.folder}/{new}")
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    made = Ssh(tmp_path_factory.mktemp("ssh"))
    yield made
    made.process.terminate()
    made.process.wait(20)


def train(config: Path, folder: Path, text: Path, hosts: tuple[str, ...], ranks: int) -> tuple[int, str]:
    """The exit code of ``emberward train`` on those hosts, and what it said."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE.format(steps=STEPS, text=text, cache=text.parent / "cache"))
    words = [
        sys.executable, "-m", "emberward", "train", str(recipe), "--no-check", "--runs", str(folder / "runs"),
        "--hosts", ",".join(f"{host}=127.0.0.1" for host in hosts), "--nproc-per-node", str(ranks),
        "--launcher", f"ssh -F {config} -o BatchMode=yes -o ConnectTimeout=10 {{host}}",
    ]  # fmt: skip
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=2 * LIMIT_S)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_one_two_and_four_hosts_have_one_curve(ssh, text, tmp_path, wait_until):
    wait_until(ssh.is_up, "sshd")
    config = ssh.config("config")
    curves = []
    for count in (1, 2, 4):
        folder = tmp_path / str(count)
        code, said = train(config, folder, text, HOSTS[:count], 4 // count)
        assert code == 0, said
        curves.append(curve(only_run(folder / "recipe.yaml")))
    assert [step for step, *_ in curves[0]] == list(range(1, STEPS + 1))
    assert curves[0] == curves[1] == curves[2]


REFUSED = pytest.mark.parametrize(
    ("hosts", "changes", "words"),
    [
        (("alpha", "beta"), {"own_key": "other_key"}, "Permission denied (publickey)"),
        (("alpha", "nowhere.invalid"), {}, "Could not resolve hostname nowhere.invalid"),
        (("alpha", "beta"), {"known_hosts": "nobody_known"}, "Host key verification failed."),
    ],
    ids=["wrong key", "unknown host", "unknown host key"],
)


@REFUSED
def test_a_host_that_ssh_does_not_let_us_use_is_named_before_any_rank_starts(
    ssh, text, tmp_path, wait_until, hosts, changes, words
):
    wait_until(ssh.is_up, "sshd")
    name = f"config-{len(words)}"
    code, said = train(ssh.config(name, **changes), tmp_path, text, hosts, 2)
    assert code == 2, said
    assert "L123 a host cannot be used" in said
    assert words in said
    assert f"where     {hosts[1] if hosts[1] not in HOSTS else 'alpha'}" in said
    assert runs_of(tmp_path / "recipe.yaml") == []


@REFUSED
def test_the_doctor_says_which_hosts_ssh_does_not_let_it_use(ssh, tmp_path, wait_until, hosts, changes, words):
    wait_until(ssh.is_up, "sshd")
    config = ssh.config(f"doctor-{len(words)}", **changes)
    command = [
        sys.executable, "-m", "emberward", "doctor", "--hosts", ",".join(hosts), "--devices-per-host", "1", "--json",
        "--launcher", f"ssh -F {config} -o BatchMode=yes -o ConnectTimeout=10 {{host}}", "--budget", "20",
        "--probe-only", "--probe", "echo=echo '{\"ok\": true}'",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert words in json.dumps(document["findings"])
    named = {host for each in document["findings"] for host in each["hosts"]}
    assert named == {host for host in hosts if changes or host not in HOSTS}
