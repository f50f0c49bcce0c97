"""Runs a few tests where users run the program: in a clone with the default name, and from an installed wheel.

    python tools/run_in_places.py [clone|wheel|bare ...]

The clone lies in ``.../a spâce é/emberward``: a folder of our own name, below one with a space and a letter beyond
ASCII. Each place has a virtual environment of its own, beside the project, which sees this one's packages by a ``.pth``
file (`setup_env` [Note: one torch]); the package itself comes from the clone's ``src`` or from the wheel. The tests are
those in which the place could matter: whose a frame is, a live verdict with its line, `explain`, an incident, `check`
of a script. ``bare``: the sdist and the wheel, each installed with its own dependencies into an environment of nothing
else and no torch, where what needs none is run on a run's folder. Building and installing needs pip's network, or its
cache.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = "a sp\u00e2ce \u00e9"
TESTS = (
    "tests/unit/sources/test_owner.py",
    "tests/unit/sources/test_scripts.py::test_a_wrong_script_is_told_with_its_line[wrong_rank0_save.py]",
    "tests/ranks/test_hangs.py::test_a_hang_is_named_with_its_cause_and_line[skipped_collective]",
    "tests/ranks/test_hangs.py::test_a_hang_is_named_with_its_cause_and_line[lock]",
    "tests/ranks/test_hangs.py::test_a_slow_job_is_no_alarm[slow_lock]",
    "tests/ranks/test_hangs.py::test_the_processes_alone_tell_the_same[lock]",
    "tests/ranks/test_incidents.py::test_an_incident_and_its_twin_are_told_rightly[bloom-limbo-disaster]",
)


def copy_tree(target: Path) -> None:
    """Copies what git knows of the working tree, and what it does not ignore, as a clone would bring it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def make_python(venv: Path, sources: list[Path], *, with_pip: bool) -> Path:
    """The interpreter of a new environment that sees this one's packages, and before them `sources`."""
    subprocess.run([sys.executable, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(venv)], check=True)
    python = venv / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    torch = find_spec("torch")
    folders = [*sources, Path(sysconfig.get_path("purelib"))]
    folders += [] if torch is None or torch.origin is None else [Path(torch.origin).parents[1]]
    (Path(site) / "place.pth").write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")
    return python


def run_tests(python: Path, project: Path, package: Path) -> int:
    """Pytest's exit code for TESTS in `project`, once it is sure that the package comes from below `package`."""
    path = os.pathsep.join([str(python.parent), sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": str(project.parent)}
    ask = "import emberward; print(emberward.__file__)"
    where = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True, cwd=project).stdout
    if not Path(where.strip()).is_relative_to(package):
        raise SystemExit(f"emberward was imported from {where.strip()}, not from below {package}")
    return subprocess.run(
        [str(python), "-m", "pytest", "-q", *TESTS], cwd=project, env=environment, check=False
    ).returncode


def in_clone(folder: Path) -> int:
    """The tests in a clone that is used in place."""
    project = folder / "emberward"
    copy_tree(project)
    python = make_python(project / ".venv", [project / "src"], with_pip=False)
    return run_tests(python, project, project / "src")


def from_wheel(folder: Path) -> int:
    """The tests against an installed wheel: of the clone only ``tests`` and the settings of pytest are left."""
    project, wheels = folder / "emberward", folder / "wheels"
    copy_tree(project)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(project)], check=True
    )
    shutil.rmtree(project / "src")
    venv = folder / "installed"
    python = make_python(venv, [], with_pip=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    return run_tests(python, project, venv)


BARE = """
import json, os, subprocess, sys, threading, urllib.request
from importlib.util import find_spec
from pathlib import Path

assert find_spec("torch") is None, "a bare environment has no torch"
program = str(Path(sys.executable).with_name("emberward"))

def say(*words, code=0, **more):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout

assert "emberward" in say("--version")
checks = {each["name"]: each for each in json.loads(say("--diagnose", "--json"))["checks"]}
assert checks["torch"]["works"] == "missing"
run = sys.argv[1]
assert json.loads(say("report", run, "--json", code=1))["card"]["code"] == "H101"
assert "H101" in say("report", run, code=1)
say("report", run, "--html", "page.html", code=1)
assert "data.py:88" in Path("page.html").read_text()
assert json.loads(say("runs", "--json"))["schema"] == 1
assert "H101" in say("explain", run, code=1)
code = "from emberward import Run; import sys; run = Run(sys.argv[1]); print(run.metrics.num_rows, run.plot().name)"
assert subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True).stdout == "120 loss\\n"
server = subprocess.Popen([program, "ui", run, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True)
try:
    address = json.loads(server.stdout.readline())["address"]
    page = urllib.request.urlopen(address, timeout=30).read().decode()
    assert "a rank never arrived" in page and "<svg" in page
finally:
    server.terminate()
    server.wait(20)
for shell in ("bash", "zsh", "fish"):
    script = say(code=0, env={**os.environ, "_EMBERWARD_COMPLETE": f"source_{shell}"})
    assert "_EMBERWARD_COMPLETE" in script, shell
words = {"COMP_WORDS": "emberward re", "COMP_CWORD": "1", "_EMBERWARD_COMPLETE": "complete_bash"}
assert "report" in say(env={**os.environ, **words}).split()
refused = subprocess.run([program, "check", "bloom_tiny"], capture_output=True, text=True, timeout=120)
assert refused.returncode in (1, 2) and "emberward[train]" in refused.stdout + refused.stderr, refused
print("all of it works without torch")
"""


def bare(folder: Path) -> int:
    """What needs no torch, from the sdist and from the wheel, each in an environment of its own dependencies alone."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from canned_runs import make; from pathlib import Path; "
    code += "print(make('hang', Path(sys.argv[2])).path)"
    command = [sys.executable, "-c", code, str(ROOT / "tests"), str(folder / "runs")]
    run = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    project, packages = folder / "emberward", folder / "packages"
    copy_tree(project)
    builder = new_python(folder / "builder")
    subprocess.run([builder, "-m", "pip", "install", "-q", "hatchling"], check=True)
    subprocess.run([builder, "-m", "hatchling", "build", "-d", str(packages)], cwd=project, check=True)
    codes = []
    for package in (*packages.glob("*.tar.gz"), *packages.glob("*.whl")):
        python = new_python(folder / f"from-{package.suffix[1:]}")
        subprocess.run([python, "-m", "pip", "install", "-q", str(package)], check=True)
        done = subprocess.run([python, "-I", "-c", BARE, run], cwd=folder, check=False)
        print(f"--- {package.name}: exit code {done.returncode}", flush=True)
        codes.append(done.returncode)
    return max(codes, default=1)


def new_python(venv: Path) -> str:
    """The interpreter of an environment that has pip and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    return str(venv / "bin" / "python")


def run_place(place: str) -> int:
    """The exit code of one place's tests, in a scratch folder of its own."""
    with tempfile.TemporaryDirectory(prefix="emberward-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / PLACE
        folder.mkdir()
        print(f"--- {place}: {folder}", flush=True)
        return PLACES[place](folder)


def main(places: list[str]) -> int:
    """0 when every test passed in every place. Several run beside each other, each a process whose lines come whole."""
    if len(places) == 1:
        return run_place(places[0])
    command = [sys.executable, os.fspath(Path(__file__).resolve())]
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(_output_of, [*command, place]) for place in places or PLACES]
        codes = []
        for each in as_completed(running):
            code, output = each.result()
            print(output, end="", flush=True)
            codes.append(code)
    return max(codes, key=abs)


def _output_of(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    return done.returncode, done.stdout


PLACES = {"clone": in_clone, "wheel": from_wheel, "bare": bare}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
