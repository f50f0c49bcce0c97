"""Runs the tests in two lanes beside each other, as `make test` does: those with ranks, and all others.

    python tools/run_tests.py [pytest's arguments]

Tests with ranks wait a good part of their time, for a hang to show or a process to end; the others wait for little. The
first lane is shown as it goes, the second one when both have ended. With arguments of its own it is pytest alone, once.
A lane ends at its tenth failure: what is broken so widely would cost an hour of time limits, and say the same again.
"""

import signal
import subprocess
import sys
import tempfile

RANKS = ("tests/ranks",)
OTHERS = ("tests", "--ignore=tests/ranks", "-o", "cache_dir=.pytest_cache/others")
INTERRUPTED = 2
"""Of pytest."""


def main(arguments: list[str]) -> int:
    """The exit code for a person or a machine: 0 when every test passed."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        return subprocess.run([*pytest, *arguments], check=False).returncode
    pytest.append("--maxfail=10")
    with tempfile.TemporaryFile() as shown:
        others = subprocess.Popen([*pytest, *OTHERS], stdout=shown, stderr=subprocess.STDOUT)
        try:
            code = subprocess.run([*pytest, *RANKS], check=False).returncode
            if code == INTERRUPTED:
                others.send_signal(signal.SIGINT)
            other = others.wait()
        except BaseException:
            others.send_signal(signal.SIGINT)
            others.wait()
            raise
        shown.seek(0)
        sys.stdout.buffer.write(shown.read())
        sys.stdout.flush()
    return code or other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
