"""Tournaments that are played: going on, who enters and leaves meanwhile, and what is refused with nothing changed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.contest import contest, held, played_on
from websockets.asyncio.client import connect

from coworld_core.episode.events import EvaluationProgressed
from coworld_core.errors import EnvironmentFault, UsageError, WorkspaceError
from coworld_core.evaluation.designs import block_seed
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.secret_seeds import key_commitment, seed_from_key, seed_key
from coworld_core.tournament import read_log
from coworld_core.tournament.tournament_log import EpisodeEnded
from coworld_runner.evaluation.tournament import (
    add_entrant,
    export_tournament,
    find_pairing,
    open_site,
    pairing_names,
    read_tournament,
    withdraw_entrant,
)
from coworld_runner.web.http_requests import exchange

pytestmark = pytest.mark.slow

THREE = ("first", "second", "third")


def left(place: Path) -> tuple[bytes, bytes]:
    return (place / "report.json").read_bytes(), (place / "report.md").read_bytes()


def kinds(place: Path) -> list[str]:
    return [event.kind for event in read_log(place / "events.ndjson")]


def edit(place: Path, old: str, new: str) -> None:
    path = place / "tournament.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


async def test_resumed_tournament_has_the_standings_of_its_log(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        whole = await held(small, tmp_path / "whole", *THREE)
        report = await played_on(small, whole)
        assert (report.stopped, report.rounds, report.blocks) == ("rounds", 1, 3)
        assert report.standings[0].name == "first"
        place = await held(small, tmp_path / "cut", *THREE)
        with anyio.CancelScope() as scope:

            def stop(event: Any) -> None:
                if isinstance(event, EvaluationProgressed) and event.blocks:
                    scope.cancel()

            await played_on(small, place, listeners=(stop,))
        so_far = read_tournament(place).report
        assert (so_far.stopped, so_far.blocks >= 1) == ("", True)
        # Torn in the middle of a line, as by a power cut
        with (place / "events.ndjson").open("ab") as log:
            log.write(b'{"kind":"episode_ended","at":"20')
        await played_on(small, place)
        assert left(place) == left(whole)
        for name in ("report.json", "report.md"):
            (place / name).unlink()
        played = kinds(place)
        await played_on(small, place)
    assert left(place) == left(whole)
    assert kinds(place) == played


async def test_players_enter_and_withdraw_during_a_tournament(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        place = await held(small, tmp_path / "league", "first", "second")
        await played_on(small, place)
        name, league = await add_entrant(place, "third", name="Newcomer")
        assert (name, league.active) == ("Newcomer", ["first", "second", "Newcomer"])
        edit(place, "rounds = 1", "rounds = 2")
        assert (await played_on(small, place)).blocks == 4
        await withdraw_entrant(place, "second")
        edit(place, "rounds = 2", "rounds = 3")
        report = await played_on(small, place)
        assert (report.blocks, report.plan.withdrawn) == (5, ("second",))
        # Back under its name, as the player that it was
        assert (await add_entrant(place, "second"))[1].active == ["first", "second", "Newcomer"]
        with pytest.raises(UsageError, match="Did you mean 'first'"):
            await withdraw_entrant(place, "frist")
    assert kinds(place).count("configured") == 3
    settings = (place / "tournament.toml").read_text()
    assert 'Newcomer = "third"' in settings


async def test_changed_rules_of_a_begun_tournament_are_refused(tmp_path: Path) -> None:
    async with contest() as small:
        place = await held(small, tmp_path / "league", "first", "second")
        log, settings = (place / "events.ndjson").read_bytes(), (place / "tournament.toml").read_text()
        for old, new, code in (
            ("seed = 0", "seed = 1", "another_tournament"),
            ('second = "second"', 'second = "third"', "player_changed"),
            ("rounds = 1", "rounds = 0", "settings_invalid"),
            ("rounds = 1", "rounds =", "settings_invalid"),
            ("rounds = 1", "turns = 1", "settings_invalid"),
            ("round-robin", "round-robbin", "unknown_pairing"),
        ):
            edit(place, old, new)
            with pytest.raises(UsageError) as refused:
                await played_on(small, place)
            assert refused.value.code == code
            (place / "tournament.toml").write_text(settings)
        with pytest.raises(UsageError) as refused:
            await add_entrant(place, "third", name="first")
        assert refused.value.code == "name_taken"
        with pytest.raises(UsageError, match="no tournament"):
            await played_on(small, tmp_path)
        assert ((place / "events.ndjson").read_bytes(), (place / "tournament.toml").read_text()) == (log, settings)
        await withdraw_entrant(place, "second")
        with pytest.raises(UsageError, match="fewer than 2 players"):
            await played_on(small, place)


async def test_seeds_are_secret_unless_the_settings_name_one(tmp_path: Path) -> None:
    async with contest(2.0) as small:

        async def seeds(name: str, seed: int | None, *, by_hand: bool = False) -> tuple[Path, dict[int, int]]:
            place = await held(small, tmp_path / name, *THREE, seed=seed)
            if by_hand:
                # Whoever writes the settings without a command has no secret until it is played
                for file in ("seed.secret", "events.ndjson"):
                    (place / file).unlink()
            await played_on(small, place)
            rows = [event.row for event in read_log(place / "events.ndjson") if isinstance(event, EpisodeEnded)]
            return place, {int(row.key.split("-")[1].split(".")[0]): row.seed or 0 for row in rows}

        place, drawn = await seeds("secret", None)
        file = place / "seed.secret"
        assert file.stat().st_mode & 0o777 == 0o600
        assert "seed" not in (place / "tournament.toml").read_text()
        # The report has the commitment, and with the secret everybody can check every seed
        secret, commitment = bytes.fromhex(file.read_text()), read_tournament(place).report.plan.seed_commitment
        assert key_commitment(secret) == commitment
        assert all(seed == seed_from_key(seed_key(secret, str(block))) for block, seed in drawn.items())
        assert f"secret seeds, commitment {commitment}" in (place / "report.md").read_text()
        assert secret.hex() not in "".join(path.read_text() for path in place.glob("*.*") if path != file)
        guessed = {block: block_seed(0, block) for block in drawn}
        assert not set(drawn.values()) & set(guessed.values())
        hand, others = await seeds("another", None, by_hand=True)
        assert read_tournament(hand).report.plan.seed_commitment
        assert not set(drawn.values()) & set(others.values())
        # A named seed can be played again, and leaves the report that it always left
        named, again = await seeds("named", 0), await seeds("again", 0)
        assert named[1] == again[1] == guessed
        assert left(named[0]) == left(again[0])
        assert b"commitment" not in b"".join(left(named[0]))
        # Another secret is another tournament
        file.write_text("ab" * 32)
        with pytest.raises(UsageError, match="drawn from another secret") as refused:
            await played_on(small, place)
        assert refused.value.code == "another_tournament"
        file.write_text("ab")
        with pytest.raises(UsageError, match="fewer than the 32 of a secret"):
            await played_on(small, place)
        file.unlink()
        with pytest.raises(UsageError, match="drawn from another secret"):
            await played_on(small, place)
        file.write_text(secret.hex())
        await played_on(small, place)


async def test_a_file_that_changes_is_another_player(tmp_path: Path) -> None:
    bots = [tmp_path / "one.py", tmp_path / "two.py"]
    for bot in bots:
        bot.write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    async with contest() as small:
        place = await held(small, tmp_path / "league", *map(str, bots))
        assert '"../one.py"' in (place / "tournament.toml").read_text()
        # The same under two names is no reason to refuse it
        assert read_tournament(place).report.plan.same_commands == (("one", "two"),)
        bots[0].write_text("def act(observation, legal, rng):\n    return legal[-1]\n")
        with pytest.raises(UsageError, match=re.escape("one.py has changed since")) as refused:
            await played_on(small, place)
    assert refused.value.code == "player_changed"


async def test_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    async with contest() as small:
        place = await held(small, tmp_path / "league", "first", "second")
        heard: list[ShownReport] = []

        def meanwhile(event: Any) -> None:
            heard.append(read_tournament(place).report)

        async def second() -> None:
            with pytest.raises(
                WorkspaceError, match=rf"Another run is writing to .*: process {os.getpid()} \("
            ) as told:
                await add_entrant(place, "third")
            assert told.value.code == "workspace_busy"

        busy = False

        def once(event: Any) -> None:
            nonlocal busy
            if isinstance(event, EvaluationProgressed) and not busy:
                busy = True
                group.start_soon(second)

        async with anyio.create_task_group() as group:
            await played_on(small, place, listeners=(meanwhile, once))
    assert busy
    assert heard


@pytest.mark.parametrize("when", ["in the middle", "at the beginning"])
async def test_a_log_changed_by_hand_is_left_as_it_is(tmp_path: Path, when: str) -> None:
    async with contest() as small:
        place = await held(small, tmp_path / "league", "first", "second")
        path = place / "events.ndjson"
        lines = path.read_bytes().splitlines(keepends=True)
        at = 0 if when == "at the beginning" else 1
        lines[at] = lines[at].replace(b"first", b"thief").replace(b'"seed":0', b'"seed":1')
        path.write_bytes(b"".join(lines) + b'{"torn')
        for use in (lambda: played_on(small, place), lambda: add_entrant(place, "third")):
            with pytest.raises(UsageError, match=rf"events.ndjson:{at + 1} is not what"):
                await use()
        with pytest.raises(UsageError, match="Nothing was changed"):
            read_tournament(place)
    assert path.read_bytes() == b"".join(lines) + b'{"torn'


async def test_a_full_disk_loses_nothing_that_was_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: Callable[..., int] = os.write
    full = True

    def write(file: int, data: Any) -> int:
        if full and bytes(data[:40]).startswith(b'{"kind":"episode_ended"'):
            # Half of it goes, then there is no more room
            if len(data) > 200:
                return written(file, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if full and not bytes(data[:1]) == b"{" and b'"check"' in bytes(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(file, data)

    async with contest() as small:
        place = await held(small, tmp_path / "league", "first", "second")
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(EnvironmentFault) as told:
            await played_on(small, place, parallel=1)
        assert told.value.code == "disk_full"
        assert kinds(place)[-1] == "round_scheduled"
        assert (place / "events.ndjson").read_bytes().endswith(b"\n")
        full = False
        assert (await played_on(small, place)).blocks == 1


async def test_tournament_site_is_exported(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        place = await held(small, tmp_path / "league", *THREE)
        await played_on(small, place)
    page = export_tournament(place, tmp_path / "site")
    text = page.read_text()
    assert "first is first of 3, after 1 round." in text
    links = re.findall(r'href="\./(episodes/[^"]+/replay)"', text)
    assert len(links) == 6
    assert all((page.parent / link).is_file() for link in links)
    again = text.encode()
    export_tournament(place, tmp_path / "site")
    assert page.read_bytes() == again
    with pytest.raises(UsageError, match="directory of its own"):
        export_tournament(place, place)
    for name in ("index.html", "report.json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("mine")
        with pytest.raises(WorkspaceError) as taken:
            export_tournament(place, tmp_path / name)
        assert taken.value.code == "path_taken"
        assert (tmp_path / name / name).read_text() == "mine"


@pytest.mark.parametrize("pairing", ["swiss", "double-elimination"])
async def test_other_pairings_are_played(tmp_path: Path, pairing: str) -> None:
    async with contest(2.0) as small:
        place = await held(small, tmp_path / "league", *THREE, pairing=pairing, rounds=None)
        report = await played_on(small, place)
    assert report.stopped == "rounds"
    assert report.standings[0].name == "first"
    assert any(match.name == "bye" for match in report.matches)


def test_pairings_are_plug_ins() -> None:
    names = {"round-robin", "swiss", "ladder", "single-elimination", "double-elimination", "free-play"}
    assert names <= set(pairing_names())
    for name in names:
        find_pairing(name)


async def test_a_folder_has_one_tournament(tmp_path: Path) -> None:
    async with contest() as small:
        await held(small, tmp_path / "league")
        with pytest.raises(UsageError) as refused:
            await held(small, tmp_path / "league")
    assert refused.value.code == "tournament_exists"


async def test_live_page_updates(tmp_path: Path) -> None:
    async def get(path: str, host: str = "") -> tuple[int, str]:
        async with exchange(lambda: anyio.connect_tcp("127.0.0.1", port), "GET", path, host=host or at) as answer:
            return answer.status, (await answer.read()).decode()

    async with contest(2.0) as small:
        place = await held(small, tmp_path / "league", *THREE)
        async with open_site(place) as link:
            at = link.removeprefix("http://").rstrip("/")
            port = int(at.rpartition(":")[2])
            assert "after 1 round" not in (await get("/"))[1]
            with pytest.raises(UsageError, match="Cannot listen on"):
                async with open_site(place, port=port):
                    pass
            changes = f"ws://{at}/changes"
            async with connect(changes, proxy=None) as one, connect(changes, proxy=None) as two:
                await played_on(small, place)
                assert (await one.recv(), await two.recv()) == ("changed", "changed")
            page = (await get("/"))[1]
            assert "first is first of 3, after 1 round." in page
            # It links to what it serves, and nothing else of the machine is served
            links = set(re.findall(r'href="\.([^"]+)"', page))
            assert len(links) == 6
            for path in links:
                assert (await get(path))[0] == 200
            assert [(await get(path))[0] for path in ("/tournament.toml", "/../one.py", "/episodes")] == [404] * 3
            assert (await get("/", "elsewhere.example"))[0] == 403
    with pytest.raises(UsageError, match="no tournament log"):
        async with open_site(tmp_path):
            pass
