"""Installs what the page's tests in a real browser need: Debian's Chromium with its driver, and axe-core from npm.

    python3 tools/setup_window.py           installs what is missing; does nothing when nothing is

Exit codes: 0 all is there, 1 the installation failed, 3 it cannot be done here (no apt-get, or not root).
Standard library only. axe-core (MPL-2.0) goes to build/axe, is used by the tests alone and is no part of the package.
"""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

from setup_cluster import CANNOT, run_apt

PACKAGES = ("chromium", "chromium-driver")
PROGRAMS = ("chromium", "chromedriver")
AXE = "4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
FOLDER = Path(__file__).parent.parent / "build" / "axe"
FETCH_LIMIT_S = 60.0


def say(text: str) -> None:
    """Writes one line for people."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def install_browser() -> int:
    """Installs the browser where it is missing; the exit code."""
    if all(shutil.which(program) for program in PROGRAMS):
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        say(f"this needs root and apt-get. Run: sudo apt-get install --no-install-recommends {' '.join(PACKAGES)}")
        return CANNOT
    say(f"installing {' and '.join(PACKAGES)} (about a minute)")
    order = ("install", "--no-install-recommends", *PACKAGES)
    for arguments in (order, ("update",), order):
        done = run_apt(*arguments)
        if done.returncode == 0 and arguments is order:
            return 0
    say(f"apt-get ended with code {done.returncode}: {done.stdout[-500:]}")
    return 1


def fetch_axe() -> int:
    """Fetches axe-core where it is missing, and believes it only with its checksum; the exit code."""
    if (FOLDER / "package" / "axe.min.js").is_file():
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        if shutil.which("npm") is not None:
            command = ["npm", "pack", "--silent", f"axe-core@{AXE}"]
            subprocess.run(command, cwd=FOLDER, check=True, timeout=FETCH_LIMIT_S, stdout=subprocess.DEVNULL)
            data = (FOLDER / f"axe-core-{AXE}.tgz").read_bytes()
        else:
            address = f"https://registry.npmjs.org/axe-core/-/axe-core-{AXE}.tgz"
            with urllib.request.urlopen(address, timeout=FETCH_LIMIT_S) as answer:
                data = answer.read()
    except (OSError, subprocess.SubprocessError) as error:
        say(f"axe-core {AXE} cannot be fetched: {error}")
        return 1
    if base64.b64encode(hashlib.sha512(data).digest()).decode() != AXE_SHA512:
        say(f"axe-core {AXE} is not what it was: the checksum differs")
        return 1
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extract("package/axe.min.js", FOLDER, filter="data")
    return 0


if __name__ == "__main__":
    sys.exit(install_browser() or fetch_axe())
