"""A real SLURM on this machine: munged, slurmctld and a slurmd a node, on loopback, in a folder of its own.

[Note: nodes on one machine]
Debian's slurmd takes ``-N NAME``, so that several run on one host, each on a port of its own. A node is named by its
loopback address (127.0.0.2, 127.0.0.3, ...): such a name needs no entry in /etc/hosts, and what ranks read from
SLURM's node lists can be connected to, as on a real cluster.

[Note: nothing left]
Every process that a cluster starts, daemons and tasks alike, carries MARK with the cluster's own value in its
environment. So whatever is left can be found, whoever its parent is.

[Note: a short folder]
A slurmd makes a socket for each step in its spool folder, and where that path is longer than Linux allows (108
bytes) no batch job begins: SLURM holds it, with the reason "launch failed requeued held". pytest's folders grow with
the number of its runs. So a cluster has a folder of its own right under the temporary one.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ports import reserve_port

MARK = "EMBERWARD_TEST_CLUSTER"
NODE = "EMBERWARD_TEST_NODE"
"""In the environment of a slurmd and of its managers of steps; SLURMD_NODENAME is in that of tasks."""
START_LIMIT_S = 30.0
COMMAND_LIMIT_S = 20.0
STOP_LIMIT_S = 10.0
POLL_S = 0.05
SOCKET_PATH = 107
"""Bytes, without the one that ends it. unix(7)."""
EXIT_REQUEUED = 75
"""A job that ends with this code is submitted again by SLURM itself."""

# What would tell a rank, or SLURM, of a job or launcher around this test; and what would hide a buffered line.
_FOREIGN = ("SLURM", "SBATCH", "SRUN", "MASTER_", "TORCHELASTIC", "EMBERWARD")
_FOREIGN_NAMES = ("PYTHONUNBUFFERED", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class Cluster:
    """A SLURM with `num_nodes` nodes. `start` it, then `launch` commands such as srun; `stop` ends everything."""

    def __init__(self, num_nodes: int, *, slurmd_timeout_s: int = 30) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="slurm-")
        self.folder = Path(self._temporary.name)
        self._slurmd_timeout_s = slurmd_timeout_s
        self.nodes = [f"127.0.0.{2 + number}" for number in range(num_nodes)]
        self.mark = secrets.token_hex(8)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES
        }
        self.environment = {
            **kept,
            "PATH": os.pathsep.join([kept.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"]),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "OMP_NUM_THREADS": "1",
            MARK: self.mark,
        }
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts all daemons and waits until every node is idle, at most START_LIMIT_S a daemon. Raises otherwise."""
        longest = self.folder / "spool" / self.nodes[-1] / f"{self.nodes[-1]}_9999.4294967291"
        assert len(os.fsencode(longest)) <= SOCKET_PATH, f"{longest} is too long for a socket"
        for name in ("munge", "state", "spool", "log", "run"):
            (self.folder / name).mkdir()
        (self.folder / "munge").chmod(0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        self._write_config()
        munge = self.folder / "munge"
        sock = self.folder / "run" / "munge.socket"
        self._start_daemon(
            "munged", "--foreground", "--force", f"--socket={sock}", f"--key-file={key}", f"--pid-file={munge / 'pid'}",
            f"--log-file={munge / 'log'}", f"--seed-file={munge / 'seed'}", "--num-threads=2", "--origin=127.0.0.1",
        )  # fmt: skip
        self._wait(sock.exists, "munged's socket")
        self.start_controller("-c", "-i")
        for node in self.nodes:
            self._slurmds[node] = self._start_daemon(
                "slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"), node=node
            )
        self._wait(self._are_all_idle, "idle nodes")

    def start_controller(self, *options: str) -> None:
        """Starts slurmctld and waits until it answers; without options it goes on with the state that it left."""
        self._controller = self._start_daemon("slurmctld", "-D", *options, "-f", str(self.folder / "slurm.conf"))
        self._wait(lambda: self.run("scontrol", "ping").returncode == 0, "slurmctld")

    def kill_controller(self) -> None:
        """Ends slurmctld at once, in the midst of whatever it does."""
        self._controller.kill()
        self._controller.wait()
        self._daemons.remove(self._controller)

    def _start_daemon(self, program: str, *arguments: str, node: str = "") -> subprocess.Popen[bytes]:
        path = shutil.which(program, path=self.environment["PATH"])
        assert path is not None, f"{program} is not installed: `make test-cluster` installs it"
        number = len(list((self.folder / "log").glob("*.out")))
        with (self.folder / "log" / f"{program}-{number}.out").open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [path, *arguments],
                    env={**self.environment, NODE: node},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                )
            )
        return self._daemons[-1]

    def lose(self, node: str) -> None:
        """Ends at once all that runs on a node, as a power cut does: its slurmd, and the tasks that this started."""
        self._slurmds[node].kill()
        self._slurmds[node].wait()
        wanted = {f"{NODE}={node}".encode(), f"SLURMD_NODENAME={node}".encode()}
        # Managers of steps first: they would tell how their tasks ended.
        for name in ("slurmstepd", ""):
            for pid, line in self.processes().items():
                with contextlib.suppress(OSError):
                    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    if line.startswith(name) and wanted & set(environment):
                        os.kill(pid, 9)

    def _are_all_idle(self) -> bool:
        shown = self.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %t").stdout.split()
        return shown[1::2] == ["idle"] * len(self.nodes)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_LIMIT_S
        while not condition():
            dead = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
            if dead or time.monotonic() > end:
                raise AssertionError(f"no {what}; ended: {dead}\n{self.logs()}")
            time.sleep(POLL_S)

    def stop(self) -> list[str]:
        """Ends every process of the cluster and removes its folder; returns what tasks had been left over."""
        self.run("scancel", "--full", "--signal=KILL", f"--user={_user()}")
        end = time.monotonic() + STOP_LIMIT_S
        while self.tasks() and time.monotonic() < end:
            time.sleep(POLL_S)
        left = self.tasks()
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=STOP_LIMIT_S)
        for pid in self.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self._temporary.cleanup()
        return left

    # -- processes ---------------------------------------------------------------------------------------------------

    def processes(self) -> dict[int, str]:
        """The command line of each living process that this cluster started, by pid. See [Note: nothing left]."""
        wanted = f"{MARK}={self.mark}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue  # it ended while we looked
        return found

    def tasks(self) -> list[str]:
        """The command lines of what jobs have started: every process but the daemons and slurmctld's own child."""
        daemons = {daemon.pid for daemon in self._daemons}
        return [
            f"{pid} {line}"
            for pid, line in sorted(self.processes().items())
            if pid not in daemons and not line.startswith("slurmctld:")
        ]

    # -- commands ----------------------------------------------------------------------------------------------------

    def run(self, *command: str, limit_s: float = COMMAND_LIMIT_S) -> subprocess.CompletedProcess[str]:
        """The result of a short SLURM command; blocks, at most `limit_s`."""
        return subprocess.run(
            ["timeout", "--kill-after=5", str(limit_s), *command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            check=False,
        )

    def launch(self, *command: str, log: Path, limit_s: float) -> subprocess.Popen[bytes]:
        """Starts a long command, such as srun, that ends after `limit_s` at the latest; its output goes to `log`."""
        with log.open("wb") as out:
            return subprocess.Popen(
                ["timeout", "--kill-after=5", str(limit_s), *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def submit(self, script: str, *options: str, log: Path) -> int:
        """The number of the job that sbatch makes of `script`. Its output is added to `log`, also after a requeue."""
        path = log.with_suffix(".sh")
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        done = self.run("sbatch", "--parsable", "--open-mode=append", f"--output={log}", *options, str(path))
        assert done.returncode == 0, done.stdout
        return int(done.stdout.strip())

    def job(self, number: int) -> dict[str, str]:
        """What ``scontrol show job`` says of a job, by field."""
        shown = self.run("scontrol", "--oneliner", "show", "job", str(number))
        assert shown.returncode == 0, shown.stdout
        return dict(part.partition("=")[::2] for part in shown.stdout.split() if "=" in part)

    def steps(self) -> list[str]:
        """The running steps that srun started, as JOB.STEP."""
        shown = self.run("squeue", "--steps", "--noheader", "--format=%i").stdout.split()
        return [step for step in shown if step.partition(".")[2].isdigit()]

    def state(self) -> str:
        """What SLURM says of its jobs and nodes, and which of their processes live, for a failing test's message."""
        asked = (("squeue", "--long"), ("scontrol", "show", "job"), ("scontrol", "show", "node"))
        said = [f"--- {' '.join(command)}\n{self.run(*command).stdout}" for command in asked]
        return "\n".join([*said, "--- processes", *(f"{pid} {line}" for pid, line in self.processes().items())])

    def logs(self) -> str:
        """The ends of the daemons' logs, for a failing test's message."""
        files: Sequence[Path] = sorted((self.folder / "log").glob("*"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in files)

    # -- configuration -----------------------------------------------------------------------------------------------

    def _write_config(self) -> None:
        host = socket.gethostname().partition(".")[0]
        user = _user()
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr={node} Port={reserve_port()} CPUs=4 RealMemory=4000"
            for node in self.nodes
        ]
        text = _CONFIG.format(
            folder=self.folder,
            host=host,
            control=reserve_port(),
            user=user,
            requeued=EXIT_REQUEUED,
            slurmd_timeout_s=self._slurmd_timeout_s,
        )
        names = ",".join(self.nodes)
        main = "Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30"
        high = "MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE PriorityTier=9 PreemptMode=OFF"
        partitions = [f"PartitionName=main Nodes={names} {main}", f"PartitionName=high Nodes={names} {high}"]
        (self.folder / "slurm.conf").write_text("\n".join([text.strip(), *nodes, *partitions, ""]), encoding="utf-8")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="utf-8")


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


# slurm.conf(5) of SLURM 22.05. cred_expire: a requeued job is held for that long, and 5 s is the least that counts.
_CONFIG = """
ClusterName=emberward
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/run/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=0
CommunicationParameters=NoCtldInAddrAny
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout={slurmd_timeout_s}
SlurmctldTimeout=30
InactiveLimit=0
KillWait=5
MinJobAge=600
JobRequeue=1
RequeueExit={requeued}
MailProg=/bin/true
RebootProgram=/bin/true
"""
