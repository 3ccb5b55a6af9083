"""The documentation tells the truth: its table of columns, its links, and the arguments of its commands."""

import re
import shlex
from pathlib import Path

import pytest

from agent import doctor, evaluate, export, launch, play
from agent.cli import arguments
from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.errors import ConfigError
from agent.logs.columns import columns
from plots import command as plot

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_table_of_columns_is_the_declared_one():
    """The one table is in docs/logs.md; the declaration in agent/logs/columns.py."""
    page = (ROOT / "docs" / "logs.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", page.split("## Columns of logs.tsv")[1], re.M)
    declared = [(c.name, c.unit, c.description) for c in columns(())]
    assert [tuple(cell.strip() for cell in row) for row in rows if row[0] != "reward_TERM"] == declared


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_exists(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_readme_links_every_page():
    links = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[2:] if f"](docs/{page.name})" not in links] == []


def commands(page):
    """Every command of a page as a list of words, without comments; a line may hold several, or go on."""
    text = re.sub(r"\\\n\s*", "", page.read_text())
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    parts = [part for line in lines for part in re.split(r"&&", line)]
    return [shlex.split(part, comments=True) for part in parts if part.strip().startswith("python ")]


def check(words):
    """Parses the arguments of one command as the command would."""
    tools = {tool.__name__: tool for tool in (doctor, evaluate, export, launch, play)}
    name, rest = (words[2], words[3:]) if words[1] == "-m" else (words[1], words[2:])
    if name in tools:
        arguments.parse(tools[name].Options, rest)
    elif name == "agent.experiment" and "-m" not in rest:
        from_omegaconf(compose(*rest))
    elif name == "plot.py":
        plot.parse_arguments(rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_can_be_typed(page):
    for words in commands(page):
        check(words)


def test_commands_are_found_and_checked():
    assert len(commands(PAGES[0])) > 5
    with pytest.raises(ConfigError, match="no_such_key"):
        check(["python", "-m", "agent.evaluate", "no_such_key=1"])
