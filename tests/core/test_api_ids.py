"""Ids of a platform, and the names people give to policies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coworld_core.api import (
    ID_PREFIXES,
    Participant,
    PolicyRef,
    PolicyVersion,
    PolicyVersionRow,
    check_id,
    id_kind,
    is_image_id,
    is_uuid,
    same_coworld,
)
from coworld_core.errors import UsageError

UUID = "3f0d2c9e-1111-4222-8333-444455556666"


@pytest.mark.parametrize(("kind", "prefix"), ID_PREFIXES.items())
def test_each_kind_is_known_by_its_beginning(kind: str, prefix: str) -> None:
    assert check_id(prefix + UUID, kind) == prefix + UUID
    assert id_kind(prefix + UUID) == kind


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("xreq_1", "episode request", "'xreq_1' is the id of an experience request, where that of an episode request"),
        ("1", "round", "'1' is not the id of a round."),
        ("round_", "round", "'round_' is not the id of a round."),
        ("", "league", "An empty string is not the id of a league."),
        ("..", "play session", "'..' is not the id of a play session."),
        ("ereq_\n1", "episode request", "is not the id of an episode request."),
        ("ereq_" + "1" * 300, "episode request", "is not the id of an episode request."),
        ("abc", "policy version", "'abc' is not the id of a policy version."),
    ],
)
def test_another_id_is_refused_and_named(text: str, kind: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_id(text, kind)
    assert raised.value.code == "bad_id"
    assert said in raised.value.message
    assert len(raised.value.message) < 250


def test_one_of_several_kinds() -> None:
    assert check_id("xreq_1", ("experience request", "episode request")) == "xreq_1"
    # as they have been recorded of a server
    assert check_id("rnd_20260711a", ("round", "division")) == "rnd_20260711a"
    with pytest.raises(UsageError) as raised:
        check_id("cow_1", ("experience request", "episode request"))
    assert "an experience request or an episode request" in raised.value.message
    assert raised.value.hint == "It looks like xreq_… or ereq_…."


def test_ids_that_are_the_servers_own_business() -> None:
    for text in ("cps_1", "ps_1", "anything"):
        assert check_id(text, "play session") == text
    assert check_id(UUID, "job") == UUID
    assert check_id("player_1", "player") == "player_1"


def test_uuids_and_image_ids() -> None:
    assert is_uuid(UUID)
    assert is_uuid(UUID.upper())
    assert not is_uuid(UUID.replace("-", ""))
    assert not is_uuid(f" {UUID}")
    assert is_image_id(f"img_{UUID}")
    assert not is_image_id(f"img_{UUID.upper()}")
    assert not is_image_id("img_latest")


def test_hyphens_and_underscores_are_equal_in_names_of_coworlds() -> None:
    assert same_coworld("paint-arena", "paint_arena")
    assert not same_coworld("paint-arena", "paintarena")


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("alice", PolicyRef(name="alice")),
        ("alice:3", PolicyRef(name="alice", version=3)),
        ("alice:v3", PolicyRef(name="alice", version=3)),
        ("team:alice:v12", PolicyRef(name="team:alice", version=12)),
        (UUID.upper(), PolicyRef(id=UUID)),
    ],
)
def test_how_people_name_a_policy(text: str, ref: PolicyRef) -> None:
    assert PolicyRef.parse(text) == ref


@pytest.mark.parametrize("text", ["", ":v1", "alice:", "alice:v0", "alice:0", "alice:vx", "alice:-1", " alice", "a\nb"])
def test_malformed_policy_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        PolicyRef.parse(text)
    assert raised.value.code == "bad_policy"
    assert "NAME:v3" in (raised.value.hint or "")


def test_a_uuid_where_a_name_is_needed() -> None:
    with pytest.raises(UsageError, match="where a name is needed"):
        PolicyRef.parse(UUID, kind="name")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P")), min_size=1, max_size=20), st.integers(1, 10**9 - 1))
def test_a_name_and_a_version_come_back(name: str, version: int) -> None:
    ref = PolicyRef.parse(f"{name}:v{version}")
    assert (ref.name, ref.version) == (name, version)
    assert PolicyRef.parse(str(ref)) == ref


def test_policy_reference_matches_versions() -> None:
    version = PolicyVersion.read({"id": UUID, "policy": {"id": "p", "name": "alice"}, "version": 3})
    row = PolicyVersionRow.read({"id": UUID, "name": "alice", "version": 3})
    seat = Participant.read({"position": 0, "policy_version_id": UUID, "policy_name": "alice", "version": 3})
    for one in (version, row, seat):
        assert PolicyRef.parse("alice").matches(one)
        assert PolicyRef.parse("alice:v3").matches(one)
        assert PolicyRef.parse(UUID).matches(one)
        assert not PolicyRef.parse("alice:v2").matches(one)
        assert not PolicyRef.parse("bob").matches(one)
        assert not PolicyRef.parse(UUID.replace("3", "4")).matches(one)
