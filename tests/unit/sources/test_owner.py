"""Whose a frame is: one function for the recorder, the stacks, the dumps, the tape and the logs."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import emberward
from emberward.diagnose import Frame, ProcessStacks, StackSource, ThreadStack, short_path, user_frame
from emberward.diagnose._log_facts import LogFactKind
from emberward.events import Owner, owner_of, package_of
from emberward.sources.dumps._logs import read_log

HERE = Path(emberward.__file__).parent
SITE = "/env/venv/lib/python3.12/site-packages"
USER, PACKAGE, PLATFORM, OURS = Owner.USER, Owner.PACKAGE, Owner.PLATFORM, Owner.OURS

PATHS = [
    # Ours: by where the package really lies, and in text from elsewhere by the names of our modules.
    (str(HERE / "sources" / "_wrap.py"), OURS),
    (str(HERE / "engine" / "_engine.py"), OURS),
    ("/u/me/emberward/src/emberward/sources/_marks.py", OURS),
    ("/mnt/a sp\u00e2ce \u00e9/emberward/src/emberward/sources/_issue.py", OURS),
    (f"{SITE}/emberward/sources/_wrap.py", OURS),
    ("/env/app.pyz/emberward/sources/_wrap.py", OURS),
    ("emberward/sources/_wrap.py", OURS),
    # The user's, however its folders and files are named.
    ("/u/me/emberward/train.py", USER),
    ("/u/me/emberward/sources/train.py", USER),
    ("/u/me/emberward/_wrap.py", USER),
    ("/u/me/work/sources/_wrap.py", USER),
    ("/u/me/emberward/tests/ranks/hangs/job.py", USER),
    ("/mnt/a sp\u00e2ce \u00e9/emberward/train.py", USER),
    ("/u/me/project/train.py", USER),
    ("/u/me/project/.venv/mine/train.py", USER),
    ("/usr/local/app/train.py", USER),
    ("/u/me/python3.11/train.py", USER),
    ("/u/me/torch/train.py", USER),
    ("train.py", USER),
    ("models/queue.py", USER),
    ("models/random.py", USER),
    ("sampler.py", USER),
    ("<stdin>", USER),
    ("<ipython-input-3-0c1d>", USER),
    # Installed packages, wherever they were installed to.
    (f"{SITE}/accelerate/accelerator.py", PACKAGE),
    (f"{SITE}/typing_extensions.py", PACKAGE),
    ("/u/me/project/.venv/lib/python3.11/site-packages/transformers/trainer.py", PACKAGE),
    ("/u/me/.local/lib/python3.11/site-packages/lightning/loops.py", PACKAGE),
    ("/usr/lib/python3/dist-packages/yaml/loader.py", PACKAGE),
    ("/env/app.pex/.deps/trl-0.9-py3-none-any.whl/trl/trainer.py", PACKAGE),
    ("/env/venv/lib/python3.9/site-packages/old-1.0-py3.9.egg/old/core.py", PACKAGE),
    (f"{sysconfig.get_path('purelib')}/some/part.py", PACKAGE),
    (f"{sysconfig.get_path('scripts')}/accelerate", PACKAGE),
    ("transformers/trainer.py", PACKAGE),
    # Python's and torch's.
    (f"{SITE}/torch/nn/modules/module.py", PLATFORM),
    ("torch/distributed/distributed_c10d.py", PLATFORM),
    ("/usr/lib/python3.11/threading.py", PLATFORM),
    ("/u/me/python/lib/python3.11/random.py", PLATFORM),
    ("random.py", PLATFORM),
    ("/usr/lib64/python3.13t/json/decoder.py", PLATFORM),
    ("/env/python311.zip/queue.py", PLATFORM),
    (f"{sysconfig.get_path('stdlib')}/queue.py", PLATFORM),
    ("threading.py", PLATFORM),
    ("<frozen importlib._bootstrap>", PLATFORM),
    ("<eval_with_key>.5", PLATFORM),
]


@pytest.mark.parametrize(("file", "owner"), PATHS)
def test_a_path_says_whose_its_frames_are(file, owner):
    assert owner_of(file) is owner


ASKS = "from emberward.events import owner_of; print(owner_of('<string>'))"


def test_code_that_is_made_of_a_text_is_the_program_where_that_has_no_file(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ASKS)
    owners = [
        subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True).stdout.strip()
        for words in (["-c", ASKS], [str(script)])
    ]
    assert owners == [USER, PLATFORM]


def test_a_link_to_the_package_is_the_package(tmp_path):
    (tmp_path / "emberward").symlink_to(HERE)
    assert owner_of(str(tmp_path / "emberward" / "sources" / "_wrap.py")) is OURS
    (tmp_path / "train.py").symlink_to(HERE.parents[1] / "pyproject.toml")
    assert owner_of(str(tmp_path / "train.py")) is USER


def test_of_a_program_that_is_an_installed_package_the_files_are_the_users():
    file = f"{SITE}/axolotl/train.py"
    assert [owner_of(file), owner_of(file, package_of(file)), owner_of(file, "trl")] == [PACKAGE, USER, PACKAGE]
    ours = str(HERE / "rank" / "__main__.py")
    assert owner_of(str(HERE / "engine" / "_engine.py"), package_of(ours)) is USER, "our trainer is what the user runs"
    assert owner_of(str(HERE / "sources" / "_wrap.py"), package_of(ours)) is OURS
    assert owner_of(f"{SITE}/torch/nn/modules/module.py", "torch") is PLATFORM


def test_the_package_in_an_archive_knows_its_own_frames(tmp_path):
    archive = tmp_path / "emberward.pyz"
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in ("__init__.py", "events/_owner.py", "sources/_wrap.py"):
            zipped.writestr(f"emberward/{name}", (HERE / name).read_text() if "owner" in name else "")
        for room in ("events", "sources"):
            zipped.writestr(f"emberward/{room}/__init__.py", "")
    code = (
        "from emberward.events._owner import owner_of\n"
        f"print(owner_of({str(archive)!r} + '/emberward/sources/_wrap.py'), owner_of('/x/emberward/sources/_wrap.py'),"
        " owner_of('/x/emberward/sources/_other.py'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["ours", "ours", "user"], done.stderr


def _frame(file, function="f", line=1):
    return Frame(function=function, file=file, line=line)


def _process(*files):
    """A process whose main thread has these frames, innermost first, and a second thread with the innermost one."""
    frames = tuple(map(_frame, files))
    threads = (ThreadStack(name="MainThread", frames=frames), ThreadStack(name="Thread-1", frames=frames[:1]))
    return ProcessStacks(pid=7, threads=threads, path="x", source=StackSource.PY_SPY)


CALL = (f"{SITE}/torch/distributed/distributed_c10d.py", str(HERE / "sources" / "_wrap.py"))
TRAINER = (f"{SITE}/accelerate/accelerator.py", f"{SITE}/transformers/trainer.py")


@pytest.mark.parametrize(
    ("files", "site"),
    [
        ((*CALL, *TRAINER, "/u/me/train.py"), "/u/me/train.py"),
        ((*CALL, "/u/me/loss.py", *TRAINER, "/u/me/train.py"), "/u/me/loss.py"),
        ((*CALL, *TRAINER, f"{SITE}/axolotl/cli.py", "/usr/lib/python3.11/runpy.py"), f"{SITE}/axolotl/cli.py"),
        ((*CALL, str(HERE / "engine" / "_executor.py"), str(HERE / "rank" / "__main__.py"), "<frozen runpy>"),
         str(HERE / "engine" / "_executor.py")),
        ((*CALL, str(HERE / "testing" / "incident_programs" / "bloom_limbo.py")),
         str(HERE / "testing" / "incident_programs" / "bloom_limbo.py")),
        ((CALL[1], "/usr/lib/python3.11/threading.py"), None),
    ],
)  # fmt: skip
def test_the_line_of_a_stack_is_the_users(files, site):
    found = user_frame(_process(*files).threads[0].frames)
    assert (None if found is None else found.file) == site


def test_a_process_keeps_its_program_in_all_its_threads():
    process = _process(f"{SITE}/axolotl/cli.py", "/usr/lib/python3.11/runpy.py")
    assert [user_frame(thread.frames).site for thread in process.threads] == ["axolotl/cli.py:1"] * 2
    assert short_path(f"{SITE}/axolotl/cli.py") == "axolotl/cli.py"
    assert short_path("/job/src/project/src/package/data.py:3") == "package/data.py:3", "a project of the src layout"
    assert short_path("/job/train.py") == short_path("/src.py/train.py") == "train.py"


TRACEBACK = """Traceback (most recent call last):
  File "{outer}", line 3, in <module>
    main()
  File "{inner}", line 9, in main
    step()
RuntimeError: CUDA out of memory
"""


@pytest.mark.parametrize(
    ("outer", "inner", "site"),
    [
        ("/u/me/emberward/train.py", f"{SITE}/accelerate/accelerator.py", "train.py:3"),
        ("/u/me/emberward/train.py", "/u/me/emberward/src/emberward/sources/_wrap.py", "train.py:3"),
        (f"{SITE}/axolotl/cli.py", f"{SITE}/axolotl/steps.py", "steps.py:9"),
        (f"{SITE}/axolotl/cli.py", f"{SITE}/trl/steps.py", "cli.py:3"),
    ],
)
def test_a_traceback_in_a_log_is_at_the_users_line(outer, inner, site):
    facts = read_log("[rank0] " + TRACEBACK.format(outer=outer, inner=inner), path="rank0.log", rank=0).facts
    assert [fact.site for fact in facts if fact.kind is LogFactKind.END] == [site]
