"""Installs what the cluster tests need from Debian or Ubuntu: SLURM, munge, ssh, nftables, cc. Standard library only.

    python3 tools/setup_cluster.py           installs what is missing; does nothing when nothing is
    python3 tools/setup_cluster.py --list    says what is missing and installs nothing

Exit codes: 0 all is there, 1 the installation failed, 3 it cannot be done here (no apt-get, or not root).
The packages' services are not started: the tests start their own, on loopback, in a temporary folder.
"""

import argparse
import os
import shutil
import subprocess
import sys

PACKAGES = ("slurm-wlm", "munge", "openssh-server", "openssh-client", "nftables", "gcc", "libc6-dev")
PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "srun",
    "sbatch",
    "scancel",
    "scontrol",
    "sinfo",
    "squeue",
    "ssh",
    "sshd",
    "nft",
    "cc",
)
COMMAND = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
LOCK_LIMIT_S = 120
INSTALL_LIMIT_S = 900.0
CANNOT = 3


def say(text: str) -> None:
    """Writes one line for people."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def missing_programs() -> list[str]:
    """The programs of PROGRAMS that PATH and the folders of system programs do not have."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def why_not() -> str | None:
    """What keeps this machine from installing packages; None when nothing does."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get here: install SLURM (22.05 or newer) and munge by hand"
    if os.geteuid() != 0:
        return f"installing needs root. Run: sudo {COMMAND}"
    return None


def run_apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs apt-get to its end, without questions and without starting a service; blocks, at most INSTALL_LIMIT_S."""
    command = ["apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_LIMIT_S}", *arguments]
    # invoke-rc.d starts no service in runlevel 1, the single-user one (Debian policy 9.3.3).
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_LIMIT_S,
        check=False,
    )


def install() -> bool:
    """Installs PACKAGES, with fresh package lists when the old ones do not do; says whether it worked."""
    order = ("install", "--no-install-recommends", *PACKAGES)
    say(f"installing {', '.join(PACKAGES)} (about a minute)")
    if run_apt(*order).returncode == 0:
        return True
    say("the package lists are old or absent; reading new ones")
    for arguments in (("update",), order):
        done = run_apt(*arguments)
        if done.returncode != 0:
            say(f"apt-get {arguments[0]} ended with code {done.returncode}:")
            for line in done.stdout.splitlines()[-15:]:
                say(f"  {line}")
            return False
    return True


def main() -> int:
    """Does what is left to do and returns the exit code."""
    parser = argparse.ArgumentParser(description="Install SLURM and munge for the cluster tests.")
    parser.add_argument("--list", action="store_true", help="say what is missing, install nothing")
    only_list = parser.parse_args().list
    missing = missing_programs()
    if not missing:
        return 0
    say(f"missing: {', '.join(missing)}")
    reason = why_not()
    if reason is not None:
        say(reason)
        return CANNOT
    if only_list:
        return 0
    if not install():
        return 1
    if missing_programs():
        say(f"still missing after the installation: {', '.join(missing_programs())}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
