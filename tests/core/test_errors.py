"""Codes of errors that decide whose doing something was."""

from __future__ import annotations

from typing import get_args

import pytest

from coworld_core.errors import TRANSFER_CODES, TransferCode, TransferError, TransferParty


def test_every_code_of_a_transfer_has_a_party() -> None:
    assert set(TRANSFER_CODES) == set(get_args(TransferCode))
    assert set(TRANSFER_CODES.values()) == set(get_args(TransferParty))


@pytest.mark.parametrize(
    ("code", "party"),
    [
        (None, "writer"),
        ("not_regular", "writer"),
        ("file_too_large", "writer"),
        ("file_name", "caller"),
        ("disk_full", "platform"),
        ("not_writable", "platform"),
        ("transfer_lost", "platform"),
    ],
)
def test_whose_doing_it_is_that_a_file_is_not_there(code: TransferCode | None, party: TransferParty) -> None:
    assert TransferError("No.", code=code).party == party
