"""The README tells the truth: its table of columns is the declared one, and what it links exists."""

import re
from pathlib import Path

from agent.columns import columns

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_table_of_columns_is_the_declared_one():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", README.split("### Columns of logs.tsv")[1], re.M)
    declared = [(c.name, c.unit, c.description) for c in columns(())]
    assert [tuple(cell.strip() for cell in row) for row in rows if row[0] != "reward_TERM"] == declared


def test_what_it_links_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []
