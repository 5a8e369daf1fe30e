"""Which hosts are this machine alone."""

from __future__ import annotations

import pytest

from coworld_core.loopback import is_loopback

HERE = ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1"]
ELSEWHERE = [
    *("", "example.org", "localhost.example.org", "notlocalhost", "127.0.0.1.example.org", "127.0.0.1:80"),
    *("0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "fe80::1", "[2001:db8::1]", "::ffff:10.0.0.1"),
]


@pytest.mark.parametrize("host", HERE)
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)
    assert is_loopback(host, subdomains=True)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_other_machines_are_not_this_one(host: str) -> None:
    assert not is_loopback(host)
    assert not is_loopback(host, subdomains=True)


def test_names_below_localhost_count_only_where_that_is_asked() -> None:
    assert not is_loopback("game.localhost")
    assert is_loopback("game.localhost", subdomains=True)
