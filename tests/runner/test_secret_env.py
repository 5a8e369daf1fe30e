"""Secrets from the environment and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_runner.secret_env import read_secret_env

SECRET = "do-not-show"
ENVIRONMENT = {"KEY": SECRET, "OTHER": "o=p", "EMPTY": ""}


def test_names_are_looked_up_and_nothing_is_exposed() -> None:
    found = read_secret_env(["KEY", "OTHER", "EMPTY"], environment=ENVIRONMENT)
    assert found.values == ENVIRONMENT
    assert found.exposed == ()


def test_values_on_the_command_line_are_taken_and_named() -> None:
    found = read_secret_env(["A=1", "B=x=y", "KEY", "A=2"], environment=ENVIRONMENT)
    assert found.values == {"A": "2", "B": "x=y", "KEY": SECRET}
    assert found.exposed == ("A", "B")


def test_the_repr_shows_no_value() -> None:
    assert SECRET not in repr(read_secret_env(["KEY"], environment=ENVIRONMENT))


def test_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.env", tmp_path / "b.env"
    first.write_bytes(
        b"\xef\xbb\xbf# a comment\r\n\r\nA=1\r\nexport B='two words'\r\n  C = \"$A\" \r\n"
        b"D='half\r\nKEY\r\nE=#no comment\r\n"
    )
    second.write_text("A=3\n")
    found = read_secret_env(["D=4"], files=[first, second], environment=ENVIRONMENT)
    assert found.values == {"A": "3", "B": "two words", "C": "$A", "D": "4", "KEY": SECRET, "E": "#no comment"}
    assert found.exposed == ("D",)


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("MISSING", "secret_not_set"),
        ("", "bad_secret_name"),
        (f"={SECRET}", "bad_secret_name"),
        (f"my key={SECRET}", "bad_secret_name"),
        ("1A=x", "bad_secret_name"),
        ("COGAME_PORT=1", "reserved_env_name"),
        ("A=x\0y", "bad_secret_value"),
    ],
)
def test_invalid_secret_arguments_are_refused(item: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_secret_env([item], environment=ENVIRONMENT)
    assert caught.value.code == code
    assert SECRET not in str(caught.value.to_dict())


def test_a_line_of_a_file_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text(f"# one\n\nnot a name {SECRET}\n")
    with pytest.raises(UsageError) as caught:
        read_secret_env(files=[file], environment={})
    assert f"{file}:3: " in caught.value.message
    assert SECRET not in str(caught.value.to_dict())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"A=\xff")
    (tmp_path / "large").write_bytes(b"A=" + b"x" * (1 << 20))
    for name in ("nowhere", "binary", "large"):
        with pytest.raises(UsageError) as caught:
            read_secret_env(files=[tmp_path / name], environment={})
        assert caught.value.code == "secrets_unreadable"
        assert str(tmp_path / name) in caught.value.message
