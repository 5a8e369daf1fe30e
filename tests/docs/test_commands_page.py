"""The commands' page says what is so: its tables are those made from the commands and their examples."""

from __future__ import annotations

import re

import pytest
from docs.command_tables import PAGE, tables, written

from coworld_cli import exitcodes


def test_its_tables_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run `python tests/docs/command_tables.py`"


def test_a_row_has_the_arguments_and_the_options_of_the_examples() -> None:
    measured = tables()["Measure"]
    assert "| `compare NEW OLD` | Find out whether one player is better than another. | `-m`, `--variant`," in measured
    assert "| `suite …` | Measure players in a suite of variants and line-ups. | `run`, `show` |" in measured


def test_a_page_without_a_place_is_noticed() -> None:
    with pytest.raises(AssertionError, match="has places for"):
        written(PAGE.read_text(encoding="utf-8").replace("<!-- table: Play -->", ""))


def test_every_exit_code_is_explained() -> None:
    listed = re.findall(r"^\| (\d+) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(map(int, listed)) == sorted(
        value for name, value in vars(exitcodes).items() if name.isupper() and isinstance(value, int)
    )
