"""Makes the project's virtual environment and keeps it fresh. Standard library only; Python 3.11 or newer.

    python3 tools/setup_env.py --extras train                    what `make train` needs
    python3 tools/setup_env.py --extras train,test,check         what `make test` and `make check` need

A stamp in the environment holds what was installed and a digest of all that decided it, so that a second call costs
a few milliseconds.

[Note: one torch]
An unpinned ``torch>=2.11`` may take gigabytes of another build. So torch comes from exactly one of three places:
1. ``--torch SPEC`` (``make TORCH='torch==2.12.0' TORCH_INDEX=URL``), as the person asked;
2. the torch >= 2.11 that the running Python already has, made visible by a ``.pth`` file. `--system-site-packages`
   does not do: from inside a virtual environment it shows the base interpreter, not that environment;
3. else the version in ``constraints.txt``.
Every pip call is constrained to the version so chosen, so that no dependency can replace it.
"""

import argparse
import hashlib
import importlib.metadata
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST_TORCH = (2, 11)
HEARTBEAT_S = 15.0
PIP_LIMIT_S = 3600.0
PROGRAMS = {"check": {"ruff": "ruff", "mypy": "mypy", "lint-imports": "import-linter"}}
"""Programs that the Makefile calls in the environment, with the package of each, by extra."""
TELLING = ("Collecting", "Downloading", "Installing", "Successfully installed", "Successfully built", "ERROR", "error:")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTorch:
    """A torch that a Python already has: its exact version and the folder that holds it."""

    version: str
    folder: Path


def version_tuple(version: str) -> tuple[int, ...]:
    """The numbers of a version: ``2.13.0+cpu`` is (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def torch_to_reuse(own: FoundTorch | None, *, asked: str | None) -> FoundTorch | None:
    """`own` when it is new enough and nobody asked for another. See [Note: one torch]."""
    if own is None or asked is not None:
        return None
    return own if version_tuple(own.version) >= LEAST_TORCH else None


def constrained(constraints: str, torch_version: str | None) -> str:
    """The text of a constraints file with torch's line replaced by `torch_version`, or left out when that is None."""
    kept = [line for line in constraints.splitlines() if not re.match(r"\s*torch\b", line)]
    pin = [] if torch_version is None else [f"torch=={torch_version}"]
    return "\n".join([*pin, *kept]) + "\n"


def digest_of(parts: list[str]) -> str:
    """A digest that changes when any of `parts` does."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_fresh(stamp: dict[str, object] | None, digest: str, extras: set[str]) -> bool:
    """Whether the stamp was made from the same files and already holds `extras`."""
    if stamp is None or stamp.get("digest") != digest:
        return False
    installed = stamp.get("extras")
    return isinstance(installed, list) and extras <= set(installed)


def say(text: str) -> None:
    """Writes one line of progress for people."""
    sys.stderr.write(f"setup: {text}\n")
    sys.stderr.flush()


def stop(text: str) -> None:
    """Ends the program with `text`; exit code 1."""
    say(text)
    raise SystemExit(1)


def find_own_torch(venv: Path) -> FoundTorch | None:
    """The torch of the running Python, or None; not when that Python is the one of `venv` itself."""
    if Path(sys.prefix).resolve() == venv.resolve():
        return None
    try:
        found = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file(""))).resolve()
    probe = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, timeout=300, check=False)
    if probe.returncode != 0:
        say(f"torch {found.version} in {folder} does not import; leaving it alone")
        return None
    return FoundTorch(version=found.version, folder=folder)


def read_stamp(path: Path) -> dict[str, object] | None:
    """The stamp, or None when it is missing or cut."""
    try:
        stamp = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def run_pip(python: Path, arguments: list[str], log: Path) -> None:
    """Runs pip to its end and tells the lines that matter, with a sign of life each HEARTBEAT_S.

    All that pip says goes to `log`. Ends the program when pip fails.
    """
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off", *arguments]
    lines: queue.Queue[str | None] = queue.Queue(maxsize=10_000)
    last: deque[str] = deque(maxlen=30)
    began = time.monotonic()
    with (
        log.open("a") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as pip,
    ):
        out = pip.stdout
        assert out is not None

        def pump() -> None:
            for line in out:
                lines.put(line.rstrip())
            lines.put(None)

        threading.Thread(target=pump, daemon=True).start()
        while time.monotonic() - began < PIP_LIMIT_S:
            try:
                line = lines.get(timeout=HEARTBEAT_S)
            except queue.Empty:
                say(f"  still at it, {time.monotonic() - began:.0f} s: {last[-1] if last else 'pip has said nothing'}")
                continue
            if line is None:
                break
            file.write(line + "\n")
            last.append(line.strip())
            if line.strip().startswith(TELLING):
                say("  " + line.strip()[:150])
        else:
            pip.kill()
    if pip.returncode != 0:
        for line in last:
            say("  " + line)
        stop(f"pip ended with code {pip.returncode}; all it said is in {log}. Mend the cause and run make again")


def make_venv(venv: Path) -> Path:
    """Returns the Python of `venv`, which is made anew when missing, broken or of another Python version."""
    python = venv / "bin" / "python"
    if python.exists():
        asked = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0 and asked.stdout.split() == [str(n) for n in sys.version_info[:2]]:
            return python
        say(f"{venv} holds another or a broken Python; making it anew")
        shutil.rmtree(venv)
    say(f"making {venv} with Python {sys.version.split()[0]}")
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        say(made.stdout.strip() or made.stderr.strip())
        stop("Python could not make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv")
    return python


def missing_programs(venv: Path, extras: set[str]) -> list[str]:
    """The packages of those programs that `extras` promise and that `venv` has not got."""
    wanted = {program: package for extra in sorted(extras) for program, package in PROGRAMS.get(extra, {}).items()}
    return [package for program, package in wanted.items() if not (venv / "bin" / program).exists()]


def install(venv: Path, extras: set[str], *, torch: str | None, torch_index: str | None) -> None:
    """Brings `venv` to hold the project (editable), `extras` and one torch; blocks for minutes.

    See [Note: one torch].
    """
    python, log = make_venv(venv), venv / "setup.log"
    constraints = venv / "constraints.txt"
    site = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    link = site / "emberward-reused-torch.pth"
    pinned = (ROOT / "constraints.txt").read_text()
    reused = torch_to_reuse(find_own_torch(venv), asked=torch)
    if reused is not None:
        say(f"reusing torch {reused.version} of {reused.folder}")
        link.write_text(f"{reused.folder}\n")
        constraints.write_text(constrained(pinned, reused.version))
    else:
        link.unlink(missing_ok=True)
        constraints.write_text(pinned if torch is None else constrained(pinned, None))
        wanted = torch or next(line for line in pinned.splitlines() if line.startswith("torch"))
        index = [] if torch_index is None else ["--index-url", torch_index]
        say(f"installing {wanted} (the largest part; minutes on a first run)")
        run_pip(python, ["-c", str(constraints), *index, wanted, "numpy"], log)
        if torch is not None:
            shown = [str(python), "-c", "import importlib.metadata as m; print(m.version('torch'))"]
            found = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.strip()
            constraints.write_text(constrained(pinned, found))
    say(f"installing emberward and [{','.join(sorted(extras))}]")
    run_pip(python, ["-c", str(constraints), "-e", f".[{','.join(sorted(extras))}]"], log)
    # A package that comes with the reused torch satisfies pip, and leaves no program in our own bin/.
    missing = missing_programs(venv, extras)
    if missing:
        run_pip(python, ["-c", str(constraints), "--ignore-installed", "--no-deps", *missing], log)


def main() -> None:
    """Parses the arguments and does what the stamp says is left to do."""
    parser = argparse.ArgumentParser(description="Make the virtual environment of this project and keep it fresh.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where it lies (default: .venv)")
    parser.add_argument("--extras", default="train", help="comma-separated extras of pyproject.toml (default: train)")
    parser.add_argument("--torch", default=None, help="another torch, as pip spells it: torch==2.12.0")
    parser.add_argument("--torch-index", default=None, help="package index to take that torch from")
    args = parser.parse_args()
    extras = {extra for extra in args.extras.split(",") if extra}
    deciding = ["pyproject.toml", "constraints.txt", "tools/setup_env.py"]
    choices = [args.torch or "", args.torch_index or "", f"{sys.version_info[:2]}", str(ROOT)]
    digest = digest_of([(ROOT / name).read_text() for name in deciding] + choices)
    stamp = args.venv / "setup-stamp.json"
    before = read_stamp(stamp)
    if is_fresh(before, digest, extras) and (args.venv / "bin" / "python").exists():
        return
    began = time.monotonic()
    stamp.unlink(missing_ok=True)
    install(args.venv, extras, torch=args.torch or None, torch_index=args.torch_index or None)
    temporary = stamp.with_suffix(".tmp")
    temporary.write_text(json.dumps({"digest": digest, "extras": sorted(extras)}))
    temporary.replace(stamp)
    say(f"ready in {time.monotonic() - began:.0f} s: {args.venv}")


if __name__ == "__main__":
    main()
