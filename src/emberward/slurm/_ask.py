"""Asks SLURM's programs: bounded, and with named errors for all that can go wrong."""

import subprocess
from collections.abc import Mapping

from emberward.findings import ConfigError

LIMIT_S = 60.0
"""Above the 30 s (three tries of MessageTimeout, 10 s) after which SLURM's own programs give up. slurm.conf(5)."""
MAX_SAID_CHARACTERS = 400
_UNREACHED = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Incompatible versions",
    "Protocol authentication error",
    "Unable to establish configuration source",
    "Could not establish a configuration source",
)
"""What SLURM's programs say when they do not reach a controller of their version (slurm_errno.c of 22.05)."""


class Slurm:
    """The programs of the SLURM that `environment` leads to. `limit_s` bounds each call."""

    def __init__(self, environment: Mapping[str, str], *, limit_s: float = LIMIT_S) -> None:
        self._environment = dict(environment)
        self._limit_s = limit_s

    def ask(self, *command: str) -> str:
        """What the program wrote on standard output; blocks.

        Raises ConfigError L120 when the program is missing, does not end in time or does not reach its controller,
        L121 when SLURM refuses.
        """
        try:
            done = subprocess.run(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._limit_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise _cannot_ask(
                command, f"no {command[0]} on PATH", "load SLURM's module, or log in where it is"
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            late = isinstance(error, subprocess.TimeoutExpired)
            found = f"no answer within {self._limit_s:.0f} s" if late else str(error)
            raise _cannot_ask(command, found, "scontrol ping") from error
        if done.returncode == 0:
            return done.stdout
        said = _last_words(done.stderr or done.stdout) or f"exit code {done.returncode}"
        if any(words in done.stderr for words in _UNREACHED):
            raise _cannot_ask(command, said, "scontrol ping")
        raise ConfigError(
            "SLURM refused",
            code="L121",
            where=" ".join(command)[:MAX_SAID_CHARACTERS],
            expected="exit code 0",
            found=said,
            next=f"man {command[0]}",
        )

    def not_understood(self, program: str, line: str) -> ConfigError:
        """The error for an answer of another form than SLURM 22.05's."""
        try:
            version = self.ask(program, "--version").strip()
        except ConfigError as error:
            version = error.found or "no version"
        return _cannot_ask(
            (program,), f"{line.strip()[:MAX_SAID_CHARACTERS]!r} ({version})", f"{program} --version: 22.05 was tried"
        )


def _cannot_ask(command: tuple[str, ...], found: str, next: str) -> ConfigError:
    return ConfigError(
        "SLURM cannot be asked",
        code="L120",
        where=" ".join(command)[:MAX_SAID_CHARACTERS],
        expected="an answer of SLURM",
        found=found,
        next=next,
    )


def _last_words(text: str) -> str:
    """The last line of an error message, without the program's name and the word error before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last.partition("error: ")[2] or last
