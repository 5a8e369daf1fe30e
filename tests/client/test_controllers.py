"""A language model and a recording in a seat: what is asked, what it costs, and playing again without the model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fake_server import Ask, Say, Site, json_say, site_in_thread
from support.served_game import Talk, serving
from support.talking import TalkingSticks

from coworld_client.seat import SeatError, play_seat
from coworld_client.seat.controllers import load_controller
from coworld_client.seat.llm import MOST_TRIES, LlmPlayer
from coworld_client.seat.recorded_frames import tick_of
from coworld_core.episode.model_use import ModelUse, read_model_use
from coworld_core.errors import UsageError
from coworld_core.records.frame_places import FramePlace
from coworld_core.roles.bundle import BundleItem, plan_bundle
from coworld_core.roles.bundle_file import Pieces, pack_bundle
from coworld_core.rules import Frame, ReplayHeader, ReplayWriter, read_replay
from coworld_core.rules.model_words import NOTHING, UNCLEAR, default_action, spoken, understood
from coworld_runner.errors import unwrapped
from coworld_runner.package.own_players.named_player import read_own_player

TAKES = [{"take": 1}, {"take": 2}]
KEY = "sk-of-this-test"


@pytest.mark.parametrize(
    ("answer", "legal", "means"),
    [
        ('{"take": 2}', TAKES, TAKES[1]),
        ('First {"take": 1}, no:\n```json\n{"take":2}\n```', TAKES, TAKES[1]),
        ('{"action": {"take": 2}}', TAKES, TAKES[1]),
        ('{"take": true}', TAKES, NOTHING),
        ('{"take": 3}', TAKES, NOTHING),
        ("", TAKES, NOTHING),
        ("I take 2", TAKES, NOTHING),
        ("e4", ["e4", "e5"], "e4"),
        ("  **E4**. ", ["e4", "e5"], "e4"),
        ("A quiet move is best.\ne5", ["e4", "e5"], "e5"),
        ("I play e4 here", ["e4", "e5"], "e4"),
        ("e4 or e5?", ["e4", "e5"], NOTHING),
        ('"e5"', ["e4", "e5"], "e5"),
        ("My answer is 2", [1, 2, 3], 2),
        ("true", [1, True], True),
        ("[" * 5000, TAKES, NOTHING),
    ],
)
def test_an_answer_means_one_legal_action_or_none(answer: str, legal: list[Any], means: Any) -> None:
    assert understood(answer, legal, {}) is means or understood(answer, legal, {}) == means


def test_where_nothing_is_listed_the_type_says_what_an_answer_is() -> None:
    words, other = {"type": "string"}, {"type": "object"}
    assert understood(" Good day. ", None, words) == "Good day."
    assert understood('so: {"a": 1}', None, other) == {"a": 1}
    assert (understood("", None, words), understood("none", None, other)) == (NOTHING, NOTHING)
    assert (default_action(None, words), default_action(None, other)) == (".", NOTHING)
    assert default_action(TAKES, other) == TAKES[0]


def first(observation: Any, legal: Any, rng: Any) -> Any:
    return legal[0]


async def played(player: Any, **config: Any) -> Any:
    """What the game says in the end, of a game of sticks in which `player` begins."""
    with unwrapped():
        async with serving(**config) as table, anyio.create_task_group() as tasks:
            tasks.start_soon(play_seat, first, table.url(1))
            over = await play_seat(player, table.url(0))
            tasks.cancel_scope.cancel()
    return over


def kept(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The decisions and the summary of an artifact."""
    with zipfile.ZipFile(path) as artifact:
        lines = [json.loads(line) for line in artifact.read("answers.jsonl").splitlines()]
        return lines, json.loads(artifact.read("summary.json"))


USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


def chat_of(answer: Callable[[str], str], usage: Any = USAGE) -> Site:
    """A server of a language model, which returns the answer to the last message, or `HTTP 503`, say, as a status."""

    def completion(ask: Ask) -> Say:
        said = answer(ask.json["messages"][-1]["content"])
        choice = {"message": {"role": "assistant", "content": said}}
        body = {"choices": [choice], "usage": usage}
        return json_say(body, int(said[5:]) if said.startswith("HTTP ") else 200, retry_after="0")

    chat = Site()
    chat.on("POST", "/v1/chat/completions", completion)
    return chat


@contextmanager
def model(answer: Callable[[str], str], artifact: Path, **more: Any) -> Generator[tuple[Site, LlmPlayer]]:
    """A server, and a player that asks it; a question costs 10 cents and so does its answer."""
    with site_in_thread(chat_of(answer)) as chat:
        where = {"base_url": f"{chat.url}/v1", "key": KEY, "artifact": artifact.as_uri()}
        yield chat, LlmPlayer(model="tiny", price=(1000, 10_000), **where, **more)


async def test_a_model_plays_and_its_recording_plays_the_same_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["no idea", '{"take": 9}', '{"take": 2}', "HTTP 500", '{"take": 1}', *['{"take": 3}'] * 9])
    path = tmp_path / "artifact.zip"
    with model(lambda words: next(answers), path) as (chat, player):
        over = await played(player, sticks=7)
    lines, summary = kept(path)
    assert [line["action"] for line in lines] == [{"take": 2}, {"take": 1}, {"take": 1}]
    assert lines[-1]["default"] == "no answer could be used"
    assert [len(line["tries"]) for line in lines] == [3, 2, MOST_TRIES]
    assert (summary["decisions"], summary["defaults"], summary["asked"]) == (3, 1, 8)
    assert ([line["refused"] for line in lines], summary["refused"]) == ([2, 0, 3], 5)
    assert (summary["prompt_tokens"], summary["cost"]) == (700, pytest.approx(7 * 0.2))
    assert {ask.headers["authorization"] for ask in chat.asked} == {f"Bearer {KEY}"}
    system, asked = (message["content"] for message in chat.asked[0].json["messages"])
    assert system.startswith("Players take one to three")
    assert "|||||||" in asked
    assert UNCLEAR not in asked
    assert UNCLEAR in chat.asked[1].json["messages"][1]["content"]
    assert KEY.encode() not in path.read_bytes()

    monkeypatch.setenv("OPENAI_BASE_URL", f"{chat.url}/v1")
    recording = read_own_player(f"recording:{path}")
    recording.put(tmp_path)
    again = await played(load_controller(str(tmp_path / "recording.json")), sticks=7)
    assert again == over
    assert len(chat.asked) == 8, "the model was asked again"


async def test_a_spending_limit_ends_the_asking_and_not_the_game(tmp_path: Path) -> None:
    path = tmp_path / "artifact.zip"
    with model(lambda words: '{"take": 2}', path, budget=0.3) as (chat, player):
        over = await played(player, sticks=12)
    lines, summary = kept(path)
    assert over["results"]["ticks"] == 10
    assert len(chat.asked) == 2, "each costs 20 cents"
    assert [line["default"] for line in lines] == [None, None, *["the spending limit of $0.3 is reached"] * 3]
    assert summary["defaults"] == 3


@pytest.mark.parametrize(
    ("usage", "price", "counted"),
    [
        (USAGE, (1000, 10_000), (100, 10, 0, 0.2, "")),
        (USAGE, None, (100, 10, 0, None, "no_price")),
        (None, (1000, 10_000), (None, None, 1, None, "uncounted")),
        (None, (0, 0), (None, None, 1, 0.0, "")),
        ({"prompt_tokens": -(10**9), "completion_tokens": 10}, (1, 1), (None, None, 1, None, "uncounted")),
        ({"prompt_tokens": 10**400, "completion_tokens": 10}, (1, 1), (None, None, 1, None, "uncounted")),
        ({"prompt_tokens": "100", "completion_tokens": None}, (1, 1), (None, None, 1, None, "uncounted")),
    ],
    ids=["counted", "no price", "uncounted", "free", "negative", "absurd", "words"],
)
async def test_a_cost_is_known_or_said_not_to_be(
    tmp_path: Path, usage: Any, price: Any, counted: tuple[Any, ...]
) -> None:
    path = tmp_path / "artifact.zip"
    with site_in_thread(chat_of(lambda words: '{"take": 1}', usage)) as chat:
        where: Any = {"base_url": f"{chat.url}/v1", "artifact": path.as_uri()}
        await played(LlmPlayer(model="tiny", price=price, **where), sticks=1)
    use = read_model_use(path)
    assert (use.model, use.calls, use.unanswered, use.refused) == ("tiny", 1, 0, 0)
    tokens = (use.prompt_tokens, use.completion_tokens) if usage is USAGE else (None, None)
    assert (*tokens, use.uncounted, use.cost, use.unknown) == counted
    assert use.prompt_tokens > 0
    both = use.plus(ModelUse(calls=2, cost=None, unknown="no_account"))
    assert (both.calls, both.cost, both.unknown) == (3, None, use.unknown or "no_account")


async def test_what_cannot_be_used_is_paid_for_too(tmp_path: Path) -> None:
    path = tmp_path / "artifact.zip"
    strange = Site()
    strange.on("POST", "/v1/chat/completions", json_say({"usage": USAGE, "choices": []}))
    with site_in_thread(strange):
        where: Any = {"base_url": f"{strange.url}/v1", "artifact": path.as_uri()}
        await played(LlmPlayer(model="tiny", price=(1000, 10_000), **where), sticks=1)
    use = read_model_use(path)
    assert (use.calls, use.cost) == (MOST_TRIES, pytest.approx(MOST_TRIES * 0.2))


@pytest.mark.parametrize("summary", [None, b"[]", b'{"model": "tiny"}', b"[" * 9999, b" " * (2 << 20)])
def test_a_seat_without_an_account_has_an_unknown_cost(tmp_path: Path, summary: bytes | None) -> None:
    nothing = ModelUse(cost=None, unknown="no_account")
    assert read_model_use(tmp_path / "none.zip") == nothing
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("summary.json" if summary is not None else "other", summary or b"")
    assert read_model_use(tmp_path / "some.zip") == nothing


@pytest.mark.parametrize(("answer", "code"), [("HTTP 401", "llm_refused"), (None, "llm_unreachable")])
async def test_unreachable_model_is_reported_without_the_key(tmp_path: Path, answer: str | None, code: str) -> None:
    with site_in_thread(chat_of(lambda words: str(answer))) as chat:
        url = f"{chat.url}/v1"
        if answer is not None:
            with pytest.raises(SeatError) as failed:
                await played(LlmPlayer(model="tiny", base_url=url, key=KEY))
    if answer is None:
        with pytest.raises(SeatError) as failed:
            await played(LlmPlayer(model="tiny", base_url=url, key=KEY))
    assert failed.value.code == code
    assert KEY not in str(failed.value)


async def test_free_text_is_the_action(tmp_path: Path) -> None:
    path = tmp_path / "artifact.zip"
    with model(lambda words: words.splitlines()[0], path) as (_, player):
        async with serving(Talk, sticks=3) as table, anyio.create_task_group() as tasks:
            tasks.start_soon(play_seat, lambda *_: "yes", table.url(1))
            await play_seat(player, table.url(0))
            tasks.cancel_scope.cancel()
        replay = read_replay(table.match.replay(reason="over"))
    assert [tick.by for tick in replay.ticks[1:]] == [{0: "llm"}, {}, {0: "llm"}]
    assert [line["action"] for line in kept(path)[0]] == ["Say something, 3 to go.", "Say something, 1 to go."]


@pytest.mark.parametrize(
    ("answer", "left", "words"),
    [
        ("SAY: hello there \ntake 1", "\ntake 1", [("hello there", "all")]),
        ("take 1\n  SAY TO 1:psst", "take 1\n", [("psst", 1)]),
        ("SAY TO TEAM: a\nSAY: b\nSAY: c", "\n\n", [("a", "team"), ("b", "all")]),
        (f"SAY: {'x' * 99}", "", [("x" * 20, "all")]),
        ("I say: take 1", "I say: take 1", []),
        ("SAY:\ntake 1", "SAY:\ntake 1", []),
    ],
)
def test_lines_of_an_answer_are_said(answer: str, left: str, words: list[Any]) -> None:
    assert spoken(answer, {"length": 20, "per_tick": 2, "to": ["all"]}) == (left, words)
    assert spoken(answer, None) == (answer, [])


async def test_a_model_talks_and_its_recording_says_the_same(tmp_path: Path) -> None:
    questions: list[str] = []

    def answers(words: str) -> str:
        questions.append(words)
        return 'SAY: I take {"take": 2}\n{"take": 1}'

    def listens(observation: Any, legal: Any, rng: Any, talk: Any) -> Any:
        talk.say(f"I heard {len(talk.heard)}", 0)
        return {"take": 1}

    path = tmp_path / "artifact.zip"
    replays: list[Any] = []
    with model(answers, path) as (_, player):
        read_player: Any = player
        for _ in range(2):
            async with serving(TalkingSticks, sticks=4) as table:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(play_seat, listens, table.url(1))
                    await play_seat(read_player, table.url(0))
                await table.over.wait()
            replays.append(read_replay(table.match.replay(reason="over")))
            read_own_player(f"recording:{path}@0").put(tmp_path)
            read_player = load_controller(str(tmp_path / "recording.json"))
    assert [[(one.seat, one.text) for one in tick.said] for tick in replays[0].ticks] == [
        [],
        [(0, 'I take {"take": 2}')],
        [(1, "I heard 1")],
        [(0, 'I take {"take": 2}')],
        [(1, "I heard 1")],
    ]
    assert [tick.said for tick in replays[1].ticks] == [tick.said for tick in replays[0].ticks]
    assert "SAY: … or SAY TO 1: …" in questions[0]
    assert "have said" not in questions[0]
    assert "Other seats have said:\nSeat 1 (not to all): I heard 1\n" in questions[1]
    assert [line["words"] for line in kept(path)[0]] == [[['I take {"take": 2}', "all"]]] * 2


def recorded(path: Path, actions: list[dict[int, Any]]) -> None:
    writer = ReplayWriter(ReplayHeader(rules="Sticks", version="0", config={}, seed=1, seats=2, names=["a", "b"]))
    for tick, done in enumerate([{}, *actions]):
        writer.add(Frame(tick=tick, to_act=(tick % 2,), drawing=""), done)
    path.write_bytes(writer.finish(reason="over"))


@pytest.mark.parametrize(
    ("word", "actions", "says"),
    [
        ("@0", [{0: {"take": 1}}, {1: {"take": 1}}], "in tick 2, seat 0: nothing was recorded"),
        ("", [{0: {"take": 1}}, {1: {"take": 1}}, {0: {"take": 9}}], "in tick 2, seat 0: .* not legal now"),
        ("@1", [{0: {"take": 1}}, {1: {"take": 1}}], "in tick 0, seat 1: nothing was recorded"),
    ],
)
async def test_diverging_recording_reports_the_tick(
    tmp_path: Path, word: str, actions: list[dict[int, Any]], says: str
) -> None:
    recorded(tmp_path / "replay", actions)
    read_own_player(f"recording:{tmp_path}{word}").put(tmp_path)
    with pytest.raises(SeatError, match=says) as failed:
        await played(load_controller(str(tmp_path / "recording.json")), sticks=9)
    assert failed.value.code == "recording_diverged"


def test_recording_is_read_from_a_bundle(tmp_path: Path) -> None:
    recorded(tmp_path / "replay", [{0: {"take": 2}}])
    content = (tmp_path / "replay").read_bytes()
    items = [
        BundleItem[Pieces](part="replay", source=lambda: [content]),
        BundleItem[Pieces](part="results", source=lambda: [b"{}"]),
    ]
    for include in (None, ["results"]):
        plan = plan_bundle("r", items, status="success", include=include)
        (tmp_path / "b.zip").write_bytes(b"".join(pack_bundle(plan)))
        if include is None:
            read_own_player(f"recording:{tmp_path}/b.zip@0").put(tmp_path)
            assert json.loads((tmp_path / "recording.json").read_text())["actions"]["0"] == {"0": {"take": 2}}
    with pytest.raises(UsageError, match="has no replay"):
        read_own_player(f"recording:{tmp_path}/b.zip")


@pytest.mark.parametrize("word", ["slot", "seat"])
def test_answers_name_their_slot_also_by_its_former_word(tmp_path: Path, word: str) -> None:
    with zipfile.ZipFile(tmp_path / "left.zip", "w") as artifact:
        artifact.writestr("answers.jsonl", json.dumps({word: 1, "tick": 0, "action": {"take": 2}}) + "\n")
    read_own_player(f"recording:{tmp_path}/left.zip@1").put(tmp_path)
    assert json.loads((tmp_path / "recording.json").read_text())["actions"] == {"1": {"0": {"take": 2}}}


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("recording:nowhere", "no_recording"),
        ("recording:", "no_recording"),
        ("recording:prompt.txt", "no_recording"),
        ("llm:", "bad_llm"),
        ("llm:tiny?prise=1,2", "bad_llm"),
        ("llm:tiny?price=1", "bad_llm"),
        ("llm:tiny?price=1,nan", "bad_llm"),
        ("llm:tiny?budget=1", "bad_llm"),
        ("llm:tiny?prompt=nowhere", "no_prompt"),
    ],
)
def test_invalid_controller_is_refused_before_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (tmp_path / "prompt.txt").write_text("Win.")
    with pytest.raises(UsageError) as refused:
        read_own_player(word)
    assert refused.value.code == code


def test_a_model_is_handed_its_prompt_and_its_key_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "prompt.txt").write_text("Win.")
    player = read_own_player("llm:acme/tiny?prompt=prompt.txt&budget=0.5&price=1,2")
    assert (player.name, player.kind, dict(player.secret_env)) == ("tiny", "llm", {"OPENAI_API_KEY": KEY})
    said = json.loads(player.files["llm.json"])
    assert said == {"controller": "llm", "model": "acme/tiny", "prompt": "Win.", "budget": 0.5, "price": [1.0, 2.0]}
    assert KEY not in repr(player)


@pytest.mark.parametrize(
    ("sent", "frame", "due"),
    [
        # By number, if no message tells a tick
        (["a", b"b"], {"after": 2}, True),
        (["a"], {"after": 2}, False),
        # By tick and the messages of that tick: one more before the start does no harm, and one less neither
        (['{"tick": 0}', '{"tick": 0}', '{"tick": 1}'], {"after": 2, "tick": 1, "nth": 1}, True),
        (['{"tick": 0}', '{"tick": 0}'], {"after": 2, "tick": 1, "nth": 1}, False),
        (['{"tick": 1}', '{"prompt": 1}'], {"after": 4, "tick": 1, "nth": 1}, True),
        (['{"tick": 1}'], {"after": 1, "tick": 1, "nth": 2}, False),
        (['{"tick": 2}'], {"after": 9, "tick": 1, "nth": 2}, True),
        # Whatever strangers call a tick is none
        (['{"tick": true}', '{"tick": "7"}', "[" * 99999, "7", "null"], {"after": 9, "tick": 0, "nth": 1}, False),
    ],
)
def test_a_recorded_message_is_due_when_the_game_is_as_far(sent: list[str | bytes], frame: Any, due: bool) -> None:
    progress = FramePlace()
    for one in sent:
        progress.take(tick_of(one))
    assert progress.reached(frame) == due
