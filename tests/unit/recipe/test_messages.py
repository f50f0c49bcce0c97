"""What a person reads for each kind of bad recipe, word for word: the table is messages.txt."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve

TABLE = Path(__file__).with_name("messages.txt")


@dataclass(frozen=True)
class Case:
    """Files, a recipe with overrides, a number of ranks, and the message that must come out."""

    label: str
    files: dict[str, str]
    words: tuple[str, ...]
    num_ranks: int
    message: str

    def run(self) -> None:
        """Loads and resolves the recipe in the current folder."""
        for name, text in self.files.items():
            Path(name).write_text(text, encoding="utf-8")
        resolve(load_recipe(self.words[0], self.words[1:]), num_ranks=self.num_ranks, tokenizer_size=257)

    def advice(self) -> list[str]:
        """The overrides that `next` begins with; none when it is no command, or is meant for the file."""
        words = self.message.partition("  next      ")[2].split(", or ")[0].split()
        is_for_a_file = self.files and self.message.startswith(("C101", "C102", "C106"))
        is_command = not is_for_a_file and all(word.partition("=")[1] and "..." not in word for word in words)
        return words if is_command else []


def read_cases() -> Iterator[Case]:
    for block in TABLE.read_text(encoding="utf-8").split("\n=== ")[1:]:
        label, *lines = block.splitlines()
        files: dict[str, str] = {}
        words: list[str] = []
        message = []
        for line in lines:
            mark, _, rest = line.partition(" ")
            if mark == ">":
                files[rest] = ""
            elif mark == "|":
                files[list(files)[-1]] += f"{rest}\n"
            elif mark == "$":
                words = shlex.split(rest)
            elif line and mark != "#":
                message.append(line)
        num_ranks = int(words.pop(0).removeprefix("RANKS=")) if words[0].startswith("RANKS=") else 8
        yield Case(label=label, files=files, words=tuple(words), num_ranks=num_ranks, message="\n".join(message))


CASES = list(read_cases())
ADVISED = [case for case in CASES if case.advice()]


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_the_message_is(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        case.run()
    assert caught.value.text() == case.message
    assert caught.value.exit_code == 2


def test_the_table_covers_every_code_of_a_recipe():
    labels = [case.label for case in CASES]
    assert len(set(labels)) == len(labels)
    assert {case.message[:4] for case in CASES} >= {"C101", "C102", "C103", "C104", "C105", "C106", "C109"}


@pytest.mark.parametrize("case", ADVISED, ids=[case.label for case in ADVISED])
def test_the_command_in_next_gives_a_recipe_that_resolves(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    advice = case.advice()
    advised = {word.partition("=")[0] for word in advice}
    is_foreign = "a key of " in case.message
    kept = [word for word in case.words[1:] if not is_foreign and word.partition("=")[0] not in advised]
    Case(case.label, case.files, (case.words[0], *kept, *advice), case.num_ranks, "").run()


def test_a_file_that_is_no_text_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_bytes(b"steps: 1 # \xff\n")
    with pytest.raises(ConfigError) as caught:
        load_recipe("mine.yaml")
    assert caught.value.text() == (
        "C106 the recipe's file is not text\n  where     mine.yaml\n  expected  UTF-8\n  found     byte 11 is not"
    )
