"""The docs as a site: each code has a page, each verb and public name is in the reference, links lead somewhere."""

import json
import re

import pytest
from docs_site import NAV, assemble, code_pages, command_page, notebook_page, python_page

import emberward
from emberward.cli._main import VERB_FILES
from emberward.findings import CATALOGUE, Kind
from emberward.testing import INCIDENTS
from emberward.web import HEADS
from house.test_references import broken_links
from house.tree import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    to = tmp_path_factory.mktemp("site") / "pages"
    assemble(to)
    return to


def test_every_code_has_a_page_that_says_what_to_do(site):
    pages = code_pages()
    for code, entry in CATALOGUE.items():
        assert (site / "codes" / f"{code}.md").read_text().startswith(f"# {code}: {entry.title}\n")
        heads = re.findall(r"^## (.*)$", pages[f"codes/{code}.md"], re.MULTILINE)
        assert {"Meaning", "Mitigation"} <= set(heads), code
        assert heads == [head for head in HEADS if head in heads]
        assert ("Impact" in heads) == (entry.kind is not Kind.NONE)
        assert f"({code}.md)" in pages["codes/index.md"]


def test_a_code_that_an_incident_ends_in_names_it_for_a_replay():
    pages = code_pages()
    named = {
        (code, name)
        for code in CATALOGUE
        for name in re.findall(r"incident run ([a-z0-9-]+)", pages[f"codes/{code}.md"])
    }
    assert named == {(code, each.name) for each in INCIDENTS for code in each.expected.codes}


def test_the_reference_has_every_verb_and_every_public_name():
    commands, names = command_page(), python_page()
    for verb in VERB_FILES:
        assert f"## `emberward {verb}" in commands
    assert "## `emberward checkpoint verify`" in commands
    for name in set(emberward.__all__) - {"__version__"}:
        assert f"## `{name}`" in names
    assert "### `Run.metrics`" in names


def test_the_navigation_names_pages_that_are_there_and_leaves_no_guide_out(site):
    named = {page for part in NAV for pages in part.values() for page in pages}
    assert {page for page in named if not (site / page).exists()} == set()
    guides = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert guides - named == set()


def test_links_of_the_assembled_pages_lead_somewhere(site):
    broken = {str(page.relative_to(site)): broken_links(page) for page in site.rglob("*.md")}
    # The generated commands hold help text, which has no links.
    assert {page: links for page, links in broken.items() if links} == {}


def test_the_notebook_is_a_page_with_all_its_cells():
    book = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())
    assert notebook_page().count("```python") == sum(cell["cell_type"] == "code" for cell in book["cells"])
