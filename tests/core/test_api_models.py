"""Resources of a platform: forgiving when they are read, exact when they are made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from coworld_core import api
from coworld_core.api import (
    Body,
    Coworld,
    CoworldUploadBody,
    EpisodeRequest,
    ExperienceBody,
    Image,
    JoinedSession,
    LeaderboardEntry,
    League,
    LobbySeatBody,
    LobbyStatus,
    Membership,
    Participant,
    PlayerBody,
    PlayerLogin,
    PolicySecretEnvBody,
    PolicyVersion,
    PolicyVersionCreated,
    PolicyVersionRow,
    PushGrant,
    RequestStatus,
    Round,
    SubmissionBody,
    Whoami,
    Wire,
    read_entries,
)
from coworld_core.errors import RemoteError, UsageError

NOW = "2026-11-01T12:00:00Z"
GAME = {"id": "game_1", "name": "Paint", "created_at": NOW}
LEAGUE = {"id": "league_1", "name": "Open", "game": GAME, "created_at": NOW}
EPISODE = {"id": "ereq_1", "status": "completed", "created_at": NOW}

MODELS = [value for name in api.__all__ if isinstance(value := getattr(api, name), type)]
RESOURCES = sorted((m for m in MODELS if issubclass(m, Wire) and m is not Wire), key=lambda m: m.__name__)
BODIES = sorted((m for m in MODELS if issubclass(m, Body) and m is not Body), key=lambda m: m.__name__)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from([NOW, "completed", "ereq_1", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_every_field_of_the_wire_is_described() -> None:
    assert len(RESOURCES) > 40
    assert len(BODIES) > 10
    for model in (*RESOURCES, *BODIES):
        assert model.__doc__, model
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} has no description"


# --- reading


def test_valid_resource_is_read_without_oddities() -> None:
    league = League.read({**LEAGUE, "public": True, "commissioner_config": {"a": [1]}})
    assert league.odd == ()
    assert league.game.name == "Paint"
    assert league.created_at == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert (league.public, league.hidden, league.is_game_of_week) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "seat"),
    [
        ("0:human_open", (0, "human_open", None)),
        ("12:random", (12, "random", None)),
        ("1:league_player:ply_1:x", (1, "league_player", "ply_1:x")),
    ],
)
def test_a_seat_of_a_lobby_as_text(text: str, seat: tuple[int, str, str | None]) -> None:
    read = LobbySeatBody.parse(text)
    assert (read.position, read.kind, read.player_id) == seat


@pytest.mark.parametrize(
    "text", ["", "1", "1:", "x:random", "-1:random", "1:human", "1:league_player", "1:random:ply_1"]
)
def test_malformed_lobby_seat_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a seat") as caught:
        LobbySeatBody.parse(text)
    assert caught.value.code == "bad_seat"


@pytest.mark.parametrize("status", ["completed", "failed", "ended", "cancelled", "expired"])
def test_lobbies_end(status: str) -> None:
    assert LobbyStatus(status).is_terminal
    assert not LobbyStatus("draft").is_terminal


def test_unknown_fields_are_kept_at_every_depth() -> None:
    raw = {**LEAGUE, "fresh": {"a": 1}, "game": {**GAME, "new": [2]}}
    shown = League.read(raw).model_dump(mode="json")
    assert shown["fresh"] == {"a": 1}
    assert shown["game"]["new"] == [2]


def test_unknown_values_of_a_status_survive() -> None:
    row = EpisodeRequest.read({**EPISODE, "status": "teleporting", "error_type": "gremlins"})
    assert row.odd == ()
    assert row.status == "teleporting"
    assert not row.status.is_terminal
    assert not row.status.is_known
    assert row.model_dump(mode="json")["status"] == "teleporting"
    assert row.model_dump(mode="json")["error_type"] == "gremlins"


@pytest.mark.parametrize(
    ("status", "terminal", "success", "cancelled"),
    [
        ("pending", False, False, False),
        ("submitted", False, False, False),
        ("dispatched", False, False, False),
        ("running", False, False, False),
        ("completed", True, True, False),
        ("failed", True, False, False),
        ("cancelled", True, False, True),
        ("canceled", True, False, True),
        ("", False, False, False),
    ],
)
def test_what_a_status_means(status: str, terminal: bool, success: bool, cancelled: bool) -> None:
    value = RequestStatus(status)
    assert (value.is_terminal, value.is_success, value.is_cancelled) == (terminal, success, cancelled)
    assert value.is_failure is (terminal and not success)


def test_a_field_that_does_not_fit_is_neutral_and_named_and_comes_out_as_it_came() -> None:
    raw = {**EPISODE, "created_at": "yesterday", "seed": "x", "scores": "none"}
    row = EpisodeRequest.read(raw)
    assert (row.created_at, row.seed, row.scores) == (None, None, ())
    assert sorted(issue.pointer for issue in row.odd) == ["/created_at", "/scores", "/seed"]
    assert {issue.code for issue in row.odd} == {"odd_value"}
    shown = row.model_dump(mode="json")
    assert (shown["created_at"], shown["seed"], shown["scores"]) == ("yesterday", "x", "none")
    assert row.id == "ereq_1"


def test_a_list_loses_only_the_elements_that_do_not_fit() -> None:
    raw = {**EPISODE, "participants": [{"position": 0, "policy_name": "a", "version": 1}, 7, None, {"position": 2}]}
    row = EpisodeRequest.read(raw)
    assert [seat.position for seat in row.participants] == [0, 2]
    assert sorted(issue.pointer for issue in row.odd) == ["/participants/1", "/participants/2"]


def test_resource_with_many_errors_is_repaired_quickly() -> None:
    raw = {**EPISODE, "participants": [7] * 20_000, "seed": 3, "scores": "none"}
    row = EpisodeRequest.read(raw)
    assert (row.participants, row.scores, row.seed) == ((), (), 3)
    assert sorted(issue.pointer for issue in row.odd) == ["/participants", "/scores"]
    assert "20000 places" in next(issue.message for issue in row.odd if issue.pointer == "/participants")
    assert len(row.model_dump(mode="json")["participants"]) == 20_000


def test_nested_oddities_are_reported_with_their_path() -> None:
    row = EpisodeRequest.read({**EPISODE, "participants": [{"position": 0}, {"position": "first"}]})
    assert [issue.pointer for issue in row.odd] == ["/participants/1/position"]
    assert row.participants[1].position == -1


def test_a_missing_resource_within_is_neutral_so_that_nothing_breaks() -> None:
    row = Membership.read({"id": "lpm_1"})
    assert row.league.game.name == ""
    assert row.policy_version.label == ""
    assert sorted(i.message for i in row.odd)[0] == 'a Membership lacks "created_at".'
    assert {issue.code for issue in row.odd} == {"missing_field"}
    assert Membership.read({"id": "lpm_1", "league": 3}).league.name == ""


def test_numbers_that_stand_for_ids_become_text() -> None:
    assert League.read({**LEAGUE, "id": 7}).id == "7"


def test_a_time_without_a_zone_is_utc() -> None:
    assert League.read({**LEAGUE, "created_at": "2026-11-01T12:00:00"}).created_at == datetime(
        2026, 11, 1, 12, tzinfo=UTC
    )


def test_numbers_without_an_end_are_odd() -> None:
    row = EpisodeRequest.read({**EPISODE, "scores": [{"policy_version_id": "a", "score": float("nan")}]})
    assert row.scores[0].score is None
    assert row.odd


@pytest.mark.parametrize("raw", [None, [], "x", 1, True])
def test_non_object_is_not_a_resource(raw: object) -> None:
    with pytest.raises(RemoteError) as raised:
        League.read(raw)
    assert raised.value.code == "not_an_object"


def test_one_odd_row_never_breaks_a_listing() -> None:
    rows, odd = read_entries(League, [LEAGUE, None, {}, {**LEAGUE, "created_at": []}, "x"])
    assert [row.id for row in rows] == ["league_1", "", "league_1"]
    assert [bool(row.odd) for row in rows] == [False, True, True]
    assert [issue.pointer for issue in odd] == ["/1", "/4"]


def _keys(model: type[Wire]) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted({"id", *model.model_fields})) | st.text(max_size=4)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.sampled_from(RESOURCES).flatmap(
        lambda model: st.tuples(st.just(model), st.dictionaries(_keys(model), JSON, max_size=6))
    )
)
def test_any_object_can_be_read_and_comes_out_as_it_came(case: tuple[type[Wire], dict[str, Any]]) -> None:
    model, raw = case
    row = model.read(raw)
    shown = row.model_dump(mode="json")
    json.dumps(shown, allow_nan=False)
    odd = {issue.pointer for issue in row.odd if issue.code == "odd_value"}
    ours = {*model.model_fields, *model.model_computed_fields}
    for key, value in raw.items():
        if key not in ours or f"/{key}" in odd:
            assert shown[key] == value
    assert model.read(row.to_wire()).model_dump(mode="json") == shown


# --- older and newer shapes


@pytest.mark.parametrize("name", ["score", "avg_score", "ewma_rank"])
def test_older_names_of_a_score(name: str) -> None:
    row = LeaderboardEntry.read({"player_id": "ply_1", "rounds_played": 2, name: 1.5})
    assert row.score == 1.5
    assert row.odd == ()


def test_older_names_of_a_lookup() -> None:
    row = PolicyVersionRow.read({"policy_version_id": "u", "policy_name": "alice", "version": 2})
    assert (row.id, row.label, row.odd) == ("u", "alice:v2", ())


def test_newer_names_of_a_seat_in_a_game() -> None:
    assert JoinedSession.read({"target_url": "http://x", "entrant_kind": "player"}).player_url == "http://x"


def test_people_may_sit_in_a_slot() -> None:
    seat = Participant.read({"position": 1, "kind": "human", "user_id": "user_1", "name": "Ann"})
    assert (seat.label, seat.odd) == ("Ann", ())


def test_newer_fields_are_shown_only_when_they_were_sent() -> None:
    assert "participation_url" not in League.read(LEAGUE).model_dump(mode="json")
    assert League.read({**LEAGUE, "participation_url": None}).model_dump(mode="json")["participation_url"] is None
    assert "created_at" not in Coworld.read({"id": "cow_1"}).to_wire()


def test_a_label_is_computed_and_shown_but_not_sent() -> None:
    version = PolicyVersion.read({"id": "u", "policy": {"id": "p", "name": "alice"}, "version": 3, "label": "junk"})
    assert version.label == "alice:v3"
    assert version.model_dump(mode="json")["label"] == "alice:v3"
    assert "label" not in version.to_wire()
    member = Membership.read({"id": "lpm_1", "policy_version": version.to_wire()})
    assert member.model_dump(mode="json")["policy_version"]["label"] == "alice:v3"
    assert "label" not in member.to_wire()["policy_version"]


# --- making


def test_a_server_must_be_exact() -> None:
    with pytest.raises(ValidationError, match="lacks created_at, game"):
        League(id="league_1", name="Open")
    with pytest.raises(ValidationError):
        Image(id="img_1", name="a", version="first", status="ready")  # pyright: ignore[reportArgumentType]
    image = Image(id="img_1", name="a", version=1, status="ready")  # pyright: ignore[reportArgumentType]
    assert image.to_wire() == {
        "id": "img_1",
        "name": "a",
        "version": 1,
        "client_hash": None,
        "status": "ready",
        "image_uri": None,
        "image_digest": None,
        "public_image_uri": None,
    }


def test_values_are_frozen() -> None:
    with pytest.raises(ValidationError):
        League.read(LEAGUE).name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_schemas_say_what_is_required_and_keep_our_marks_to_themselves() -> None:
    for model in (*RESOURCES, *BODIES):
        text = json.dumps(model.model_json_schema(mode="serialization"))
        assert "x-required" not in text
        assert "x-newer" not in text
    schema = League.model_json_schema()
    assert schema["required"] == ["created_at", "game", "id", "name"]
    assert schema["properties"]["id"] == {
        "description": "`league_<uuid>`.",
        "title": "Id",
        "type": "string",
    }
    assert "completed" in json.dumps(Round.model_json_schema()["properties"]["status"])


@pytest.mark.parametrize("model", BODIES, ids=lambda model: model.__name__)
def test_bodies_refuse_what_they_do_not_know(model: type[BaseModel]) -> None:
    with pytest.raises(ValidationError) as raised:
        model.model_validate({"no_such_field": 1})
    assert any(error["type"] == "extra_forbidden" for error in raised.value.errors())


def test_bodies_leave_out_what_was_not_given_but_not_nulls_of_the_caller() -> None:
    body = SubmissionBody(league_id="league_1", policy_version_id="u")
    assert body.to_wire() == {"league_id": "league_1", "policy_version_id": "u", "auto_champion": "always"}
    assert CoworldUploadBody(manifest={"a": None}).to_wire() == {"manifest": {"a": None}}


@pytest.mark.parametrize(
    "body",
    [
        {"coworld_id": "cow_1", "roster": []},
        {"roster": [{"player": {"random": True}}]},
        {"coworld_id": "cow_1", "target": {}, "roster": [{"player": {"random": True}}]},
        {"coworld_id": "cow_1", "roster": [{"player": {}}]},
        {"coworld_id": "cow_1", "roster": [{"player": {"random": True, "top_n": 1}}]},
        {"coworld_id": "cow_1", "roster": [{"player": {"top_n": 0}}]},
        {"coworld_id": "cow_1", "roster": [{"player": {"random": True}, "slot": -2}]},
        {"coworld_id": "cow_1", "roster": [{"player": {"random": True}}], "num_episodes": 0},
        {"coworld_id": "cow_1", "roster": [{"player": {"random": True}}], "rotate_seats": True},
    ],
)
def test_invalid_experience_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ExperienceBody.model_validate(body)


def test_an_experience_request_as_it_is_sent() -> None:
    body = {
        "target": {"league_id": "league_1"},
        "roster": [{"player": {"policy_ref": "alice:v3"}, "slot": 0}, {"player": {"top_n": 7}}],
        "num_episodes": 30,
        "game_config_overrides": {"seed": None},
    }
    assert ExperienceBody.model_validate(body).to_wire() == body


@pytest.mark.parametrize(
    ("body", "values", "where"),
    [
        (PlayerBody, {"name": " " * 70}, "name"),
        (PolicySecretEnvBody, {"policy_secret_env": {"A": "secret\0"}}, "policy_secret_env.A"),
        (ExperienceBody, {"coworld_id": "cow_1", "roster": [], "num_episodes": 101}, "roster"),
    ],
)
def test_invalid_body_is_refused_before_sending(body: type[Body], values: dict[str, Any], where: str) -> None:
    with pytest.raises(UsageError) as refused:
        body.of(**values)
    assert refused.value.code == "bad_body"
    assert refused.value.message.startswith(f"{where}: ")
    assert "secret\0" not in str(refused.value)


def test_computed_fields_are_not_in_schemas() -> None:
    for mode in ("validation", "serialization"):
        schema = PolicyVersionCreated.model_json_schema(mode=mode)
        assert "label" not in schema["properties"]
        assert "label" not in schema["required"]


# --- secrets


def test_secrets_are_in_no_repr() -> None:
    shown = [
        repr(PlayerLogin.read({"player_id": "ply_1", "token": "ply_secret", "expires_at": NOW})),
        repr(PushGrant.read({"kind": "ecr", "authorization_token": "c2VjcmV0"})),
        repr(PolicySecretEnvBody(policy_secret_env={"KEY": "secret"})),
    ]
    for text in shown:
        assert "secret" not in text.replace("policy_secret_env", "")
        assert "c2VjcmV0" not in text


def test_unknown_token_is_anonymous() -> None:
    assert Whoami.read({"user_email": "unknown", "subject_type": "anonymous"}).subject_type.is_anonymous
    assert not Whoami.read({"subject_type": "service"}).subject_type.is_anonymous
