"""`emberward.Run`: what a notebook sees, the worked notebook itself, and the public interface, which is frozen."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from canned_runs import BAD, HANG, append_line, make, metrics_of, say, write_metrics

import emberward
from emberward import Run
from emberward.report import Frame

ROOT = Path(__file__).parents[3]
FROZEN = Path(__file__).parent / "public_names.txt"


def run_of(kind, tmp_path):
    return Run(make(kind, tmp_path).path)


def test_a_run_has_the_words_of_its_page_and_its_series_as_columns(tmp_path):
    run = run_of("hang", tmp_path)
    assert run.state == "stalled"
    assert HANG.message in run.card
    assert run.metrics.num_rows == 120
    assert run.metrics["step"] == list(range(1, 121))
    assert run.findings["code"] == ["H101"]
    assert run.findings["recovered"] == [False]
    assert run.attempts["num_ranks"] == [8]
    assert run.lag.num_rows == 120
    assert len(run.lag) == 1 + 8
    assert [row["what"] for row in run.timeline.rows()] == ["start", "evaluation", "evaluation", "H101"]
    assert [each.name for each in run.pictures] == ["witness-H101"]


def test_steps_that_were_done_again_are_there_once(tmp_path):
    run = run_of("healthy", tmp_path)
    write_metrics(run._folder, [metrics_of(100, steps=200) | {"loss": 9.0}])
    assert run.metrics.num_rows == 120
    assert run.metrics["loss"][99] == 9.0
    assert [each.name for each in run.pictures] == ["schedule", "mesh", "memory", "traffic"]


def test_a_figure_keeps_a_spike_and_shows_what_is_missing_as_a_gap(tmp_path):
    run = run_of("spike", tmp_path)
    picture = run.plot("loss")
    assert "9.75" in picture.sentence
    assert picture.svg.count("<polyline") == 2, "step 91 was not finite"
    assert len(picture.alone()) < 60_000
    write_metrics(run._folder, ({"step": step, "loss": 17.0 if step == 4321 else 2.0} for step in range(121, 9000)))
    assert "to 17," in run.plot("loss").sentence
    with pytest.raises(KeyError):
        run.plot("nonsense")


@pytest.mark.parametrize("kind", ["empty", "corrupt"])
def test_a_folder_that_lacks_everything_gives_empty_frames(tmp_path, kind):
    run = run_of(kind, tmp_path)
    assert run.findings.num_rows == run.lag.num_rows == 0
    assert run.plot("grad_norm") is None
    assert run.pictures == ()
    assert "<svg" not in run._repr_html_()


def test_what_a_notebook_shows_runs_nothing_of_the_run(tmp_path):
    run = run_of("hostile", tmp_path)
    for shown in (run, run.findings, run.timeline, run.attempts, *run.pictures):
        assert "<script" not in shown._repr_html_()
        assert "<img" not in shown._repr_html_()
    assert BAD in run.findings["message"]


def test_a_live_cell_shows_each_change_and_ends_with_the_run(tmp_path):
    run = run_of("healthy", tmp_path)
    seen = []

    def show(run):
        seen.append(run.state)
        append_line(run._folder.attempts, {"event": "end", "attempt": 1, "outcome": "done", "hours": 1.0})
        say(run._folder, "done", 120, 120, age_s=0, now_unix=0)

    run.live(timeout_s=20, show=show)
    assert seen[-1] == "done"
    assert len(seen) == 2


def test_a_frame_is_a_mapping_that_pandas_takes_and_refuses_uneven_columns():
    frame = Frame({"step": [1, 2], "loss": [2.0, None]})
    assert dict(frame) == {"step": [1, 2], "loss": [2.0, None]}
    assert (len(frame), frame.num_rows, repr(frame)) == (2, 2, "Frame(2 rows: step, loss)")
    assert frame.rows()[1] == {"step": 2, "loss": None}
    assert "<td>2</td><td></td>" in frame._repr_html_()
    with pytest.raises(ValueError, match="one length"):
        Frame({"a": [1], "b": []})


def test_a_frame_in_pandas_has_its_columns_and_gaps(monkeypatch):
    table = Frame({"step": [1, 2], "loss": [2.0, None]}).to_pandas()
    assert list(table.columns) == ["step", "loss"]
    assert table["loss"].isna().tolist() == [False, True]
    assert table["step"].sum() == 3
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError):
        Frame({"step": [1]}).to_pandas()


def test_every_cell_of_the_worked_notebook_runs(tmp_path, monkeypatch, capsys):
    made = make("hang", tmp_path)
    (tmp_path / "runs").mkdir()
    made.path.parent.rename(tmp_path / "runs" / "bloom_tiny")
    monkeypatch.chdir(tmp_path)
    book = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())
    names: dict[str, object] = {}
    shown = []
    for number, cell in enumerate(cell for cell in book["cells"] if cell["cell_type"] == "code"):
        body = ast.parse("".join(cell["source"]))
        last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, f"cell {number}", "exec"), names)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
    assert HANG.message in capsys.readouterr().out
    assert sum(hasattr(value, "_repr_html_") for value in shown) >= 5
    assert all(cell.get("outputs", []) == [] for cell in book["cells"]), "stored pictures make notebooks large"


def test_the_worked_notebook_runs_in_a_real_kernel(tmp_path):
    made = make("hang", tmp_path)
    (tmp_path / "runs").mkdir()
    made.path.parent.rename(tmp_path / "runs" / "bloom_tiny")
    program = (
        "import nbformat, sys; from nbclient import NotebookClient\n"
        "book = nbformat.read(sys.argv[1], as_version=4)\n"
        "NotebookClient(book, timeout=120, kernel_name='python3').execute()\n"
        "nbformat.write(book, sys.argv[2])\n"
    )
    out = tmp_path / "out.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "docs" / "notebook.ipynb"), str(out)],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = [each for cell in json.loads(out.read_text())["cells"] for each in cell.get("outputs", [])]
    assert sum("text/html" in each.get("data", {}) for each in outputs) >= 5
    assert HANG.message in json.dumps(outputs)


def public_names():
    """Every public name of the package with its signature, a line each."""
    for name in sorted(emberward.__all__):
        value = getattr(emberward, name)
        if inspect.isclass(value):
            yield f"class {name}{_signature(value)}"
            for key, member in sorted(vars(value).items()):
                if key.startswith("_"):
                    continue
                if isinstance(member, property):
                    yield f"  {name}.{key} -> {member.fget.__annotations__.get('return')}"
                elif callable(member):
                    yield f"  {name}.{key}{_signature(member)}"
                else:
                    yield f"  {name}.{key}"
        elif callable(value):
            yield f"def {name}{_signature(value)}"
        else:
            yield name


def _signature(value):
    return re.sub(r"<function .*?>", "...", str(inspect.signature(value)))


def test_the_public_interface_is_what_it_was_and_the_docs_name_all_of_it():
    """``PYTHONPATH=tests python -m unit.cli.test_python_run`` writes it again: a change is a change for users."""
    assert FROZEN.read_text().splitlines() == list(public_names())
    docs = (ROOT / "docs" / "python-api.md").read_text()
    types = (ROOT / "src" / "emberward" / "__init__.pyi").read_text()
    for name in emberward.__all__:
        assert re.search(rf"\b{name}\b", docs), name
        assert re.search(rf"\b{name}\b", types), name
    for key in (key for key in vars(Run) if not key.startswith("_")):
        assert f"`{key}" in docs or f".{key}" in docs, key


if __name__ == "__main__":
    FROZEN.write_text("\n".join(public_names()) + "\n")
