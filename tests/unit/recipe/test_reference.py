"""docs/configuration.md is made from the dataclasses, and is current."""

from pathlib import Path

import pytest

from emberward.recipe import configuration_reference, with_reference
from emberward.recipe._ranges import RANGES
from emberward.recipe._schema import keys

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
RENEW = "from pathlib import Path; import emberward.recipe as r; r.write_reference(Path('docs/configuration.md'))"


def test_the_document_is_current():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_reference(text) == text, f'renew it: python -c "{RENEW}"'


def test_every_key_stands_in_the_reference_with_a_meaning():
    rows = [line.split(" | ") for line in configuration_reference().splitlines() if line.startswith("| `")]
    meanings = {row[0].removeprefix("| ").strip("`"): row[-1].removesuffix(" |") for row in rows if len(row) == 4}
    for key in keys():
        assert meanings[key].endswith("."), key


def test_every_range_is_one_of_a_key():
    assert set(RANGES) <= set(keys())


def test_a_document_without_marks_is_refused():
    with pytest.raises(ValueError, match="expected the lines"):
        with_reference("# Configuration\n")
