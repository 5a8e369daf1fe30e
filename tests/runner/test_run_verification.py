"""Runs that are verified: the same, different from a tick on, not to be played again; and what strangers wrote."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.contest import contest, held, played_on
from support.fake_provider import KEY, fake_provider
from support.framed_games import asking_game, lucky_game, painted
from support.kit_packages import claims_game
from support.nim_episode import NIM, nim_bundle
from support.played_runs import Lines, leave_run, reseal, rewrite_replay, sha256
from support.small_world import fast, world

from coworld_core.episode.record import ArtifactRecord, EpisodeRow, read_record
from coworld_core.errors import UsageError
from coworld_core.roles.report import zip_of
from coworld_runner import LocalRuns
from coworld_runner.certification import make_key, public_path, read_public_keys, read_signing_key
from coworld_runner.certification.verification import (
    PROVENANCE_NAME,
    VERIFIED_NAME,
    Verification,
    Verifier,
    sign_records,
    signed_provenance,
    verify_local_runs,
    verify_many,
    verify_run,
)
from coworld_runner.episode import ModelAccess, ModelProvider


@pytest.fixture(scope="module")
def nim_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nim, which nobody changes."""
    return anyio.run(leave_run, NIM, tmp_path_factory.mktemp("played") / "run")


@pytest.fixture
def run(nim_run: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(nim_run, tmp_path / "run"))


def changed(found: Verification) -> list[str]:
    return [file.path for file in found.files]


# --- what is the same, and what is not -------------------------------------------------------------------------------


async def test_an_untouched_run_is_the_same(run: Path) -> None:
    found = await verify_run(run)
    assert (found.verdict, found.files, found.code, found.notes) == ("same", (), "", ())
    assert found.checked == ("record", "files", "replay", "results")


async def test_every_changed_byte_is_found_and_named(run: Path) -> None:
    (run / "samples.ndjson").write_bytes(b'{"tick":0}\n')
    (run / "events.json").write_bytes(b"[]\n")
    (run / "events.ndjson").write_bytes(b'{"seq":1}\n')
    reseal(run)
    async with Verifier() as verifier:
        assert (await verifier.verify([("run", run)]))[0].ok
        for path in [run / "episode.json", *(run / file.path for file in read_record(run).artifacts)]:
            data, name = path.read_bytes(), path.relative_to(run).as_posix()
            for at in range(0, len(data), 1 if len(data) < 100 else 41):
                path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
                (found,) = await verifier.verify([("run", run)])
                assert (found.verdict, name in changed(found)) == ("different", True), (name, at)
            for other in (data + b" ", data[:-1]):
                path.write_bytes(other)
                (found,) = await verifier.verify([("run", run)])
                assert (found.verdict, name in changed(found)) == ("different", bool(data) or other != data), name
                if not data:
                    break
            path.write_bytes(data)
            if path.name != "episode.json":
                path.unlink()
                (found,) = await verifier.verify([("run", run)])
                assert (found.verdict, name in changed(found)) == ("different", True), name
                path.write_bytes(data)
        layout = (run / "episode.json").read_text()
        (run / "episode.json").write_text(layout.replace("\n  ", "\n\t ", 1))
        assert changed((await verifier.verify([("run", run)]))[0]) == ["episode.json"]


async def test_a_forged_move_is_told_by_its_tick(run: Path) -> None:
    def take_more(lines: Lines) -> None:
        (seat,) = lines[2]["actions"]
        lines[2]["actions"][seat] = {"take": 1 + lines[2]["actions"][seat]["take"] % 3}

    rewrite_replay(run, take_more)
    reseal(run)
    found = await verify_run(run)
    assert (found.verdict, found.code, found.tick, found.files) == ("different", "game_differs", 1, ())
    assert found.reason.startswith("First different tick 1: drawing was ")
    assert found.recorded != found.now


@pytest.mark.parametrize(
    ("forge", "path"),
    [
        (lambda run: (run / "results.json").write_text('{"scores": [1, 1], "ticks": 1}'), "results.json"),
        (lambda run: reseal(run, results={"scores": [5.0, 5.0]}), "episode.json"),
        (lambda run: reseal(run, scores=(5.0, 5.0)), "episode.json"),
        (lambda run: reseal(run, seed=9), "episode.json"),
        (lambda run: (run / "replay").write_bytes(b"nonsense"), "replay"),
    ],
)
async def test_what_contradicts_the_game_is_named(run: Path, forge: Callable[[Path], Any], path: str) -> None:
    before = read_record(run).seed
    reseal(run, seed=3)
    forge(run)
    record = read_record(run)
    reseal(run, results=record.results, scores=record.scores)
    found = await verify_run(run)
    assert before in (None, 3)
    assert (found.verdict, changed(found)) == ("different", [path])


async def test_a_replay_that_was_cut_short_contradicts_the_results(run: Path) -> None:
    rewrite_replay(run, lambda lines: [lines.pop() for _ in range(3)])
    reseal(run)
    found = await verify_run(run)
    assert (found.verdict, changed(found)) == ("different", ["replay"])
    assert "when the game is not over" in found.reason


# --- signatures ------------------------------------------------------------------------------------------------------


async def test_a_signature_protects_the_record(run: Path, tmp_path: Path) -> None:
    for name in ("ada", "eve"):
        make_key(tmp_path / name)
    ada, eve = (read_public_keys(public_path(tmp_path / name)) for name in ("ada", "eve"))
    assert changed(await verify_run(run, trusted=ada)) == ["episode.json"]
    assert sign_records([run, tmp_path / "nothing"], read_signing_key(tmp_path / "ada")) == 1
    found = await verify_run(run, trusted=ada)
    assert (found.verdict, "signature" in found.checked) == ("same", True)
    assert (await verify_run(run)).verdict == "same"
    assert changed(await verify_run(run, trusted=eve)) == ["episode.json"]
    signature = read_record(run).signature
    reseal(run, seed=3, coworld="other")
    assert read_record(run).signature is None
    text = (run / "episode.json").read_text()
    assert signature is not None
    forged = json.loads(text) | {"signature": signature.model_dump()}
    (run / "episode.json").write_text(json.dumps(forged, indent=2) + "\n")
    assert "not one of this record" in (await verify_run(run)).files[0].problem
    forged["signature"]["algorithm"] = "rsa"
    (run / "episode.json").write_text(json.dumps(forged, indent=2) + "\n")
    assert "algorithm 'rsa'" in (await verify_run(run)).files[0].problem


# --- what cannot be played again -------------------------------------------------------------------------------------


async def test_why_a_run_cannot_be_played_again(run: Path, tmp_path: Path) -> None:
    async def reason(game: Path | None = None) -> tuple[str, str]:
        found = await verify_run(run, game=game)
        assert (found.verdict, found.files) == ("cannot", ())
        assert found.reason.startswith("It cannot be played again: ")
        return found.code, found.reason

    record = read_record(run)
    reseal(run, manifest="https://games.example/nim.json")
    assert (await reason())[0] == "game_unknown"
    reseal(run, manifest=str(tmp_path / "gone.json"))
    assert (await reason())[0] == "game_missing"
    reseal(run, manifest=record.manifest, manifest_sha256="0" * 64)
    code, words = await reason()
    assert (code, "0" * 64 in words, record.manifest_sha256 in words) == ("rules_changed", True, True)
    assert (await verify_run(run, game=NIM)).verdict == "same"
    assert (await reason(NIM.parent / "paintarena"))[1].endswith("what its seats sent was not recorded (frames).")
    (run / "replay").unlink()
    reseal(run, manifest_sha256=record.manifest_sha256)
    assert (await reason())[0] == "no_replay"


async def test_changed_rules_are_named_by_digest(tmp_path: Path) -> None:
    game = claims_game(tmp_path / "claims", seats=3)
    run = await leave_run(game, tmp_path / "run")
    assert (await verify_run(run)).verdict == "same"
    rules = game / "claims.py"
    before, text = sha256(rules), rules.read_text()
    rules.write_text(f"{text}\n# The same rules\n")
    found = await verify_run(run)
    assert (found.verdict, before in found.notes[0], sha256(rules) in found.notes[0]) == ("same", True, True)
    rules.write_text(text.replace("randint(1, 9)", "randint(2, 9)"))
    found = await verify_run(run)
    assert (found.verdict, found.code) == ("cannot", "rules_changed")
    assert before in found.reason
    assert sha256(rules) in found.reason
    rules.write_text(text.replace('version = "1"', 'version = "2"'))
    assert (await verify_run(run)).code == "rules_changed"
    rules.write_text(text.replace("def start(self):", "def start(self):\n        import os; os._exit(3)"))
    async with Verifier() as verifier:
        found = await verifier.verify([("one", run), ("two", run)])
        assert [one.code for one in found] == ["rules_ended"] * 2
    rules.write_text("raise SystemError('no')\n")
    assert (await verify_run(run)).code == "rules_unloadable"


# --- what strangers wrote --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sha", "problem"),
    [
        ("../secret", "0" * 64, "leads out"),
        ("/etc/passwd", "0" * 64, "leads out"),
        ("logs/../../secret", "0" * 64, "leads out"),
        ("", "0" * 64, "leads out"),
        ("link", "0" * 64, "is a link"),
        ("linked/secret", "0" * 64, "is a link"),
        ("pipe", "0" * 64, "not a regular file"),
        ("secret\0", "0" * 64, "cannot be read"),
        ("results.json", "d41d8cd98f00b204e9800998ecf8427e", "no SHA-256"),
        ("results.json", "sha512:00", "no SHA-256"),
    ],
)
async def test_digests_of_strangers_lead_nowhere(run: Path, path: str, sha: str, problem: str) -> None:
    (run.parent / "secret").write_text("secret")
    (run / "link").symlink_to(run.parent / "secret")
    (run / "linked").symlink_to(run.parent, target_is_directory=True)
    os.mkfifo(run / "pipe")
    artifact = ArtifactRecord(path=path, size=35, sha256=sha)
    record = read_record(run)
    kept = [file for file in record.artifacts if file.path != path]
    (run / "episode.json").write_bytes(record.model_copy(update={"artifacts": (*kept, artifact)}).to_document())
    found = await verify_run(run)
    assert found.verdict == "different"
    assert problem in found.files[0].problem


async def test_a_file_that_the_record_does_not_name_does_not_count(run: Path) -> None:
    record = read_record(run)
    kept = tuple(file for file in record.artifacts if file.path != "results.json")
    (run / "episode.json").write_bytes(record.model_copy(update={"artifacts": kept}).to_document())
    assert changed(await verify_run(run)) == ["results.json"]


async def test_a_game_that_comes_along_is_not_executed(tmp_path: Path) -> None:
    game = claims_game(tmp_path / "claims", seats=3)
    run = await leave_run(game, tmp_path / "run")
    brought = Path(shutil.copytree(game, run / "claims"))
    mark = tmp_path / "executed"
    rules = brought / "claims.py"
    rules.write_text(f"open({str(mark)!r}, 'w').close()\n{rules.read_text()}")
    for manifest in (str(brought / "coworld_manifest_template.json"), "claims", f"{run}/x/../claims"):
        reseal(run, manifest=manifest)
        found = await verify_run(run)
        assert (found.verdict, found.code in ("game_brought", "game_unknown")) == ("cannot", True), manifest
    (tmp_path / "outside").symlink_to(brought, target_is_directory=True)
    reseal(run, manifest=str(tmp_path / "outside"))
    assert (await verify_run(run)).code == "game_brought"
    assert not mark.exists()
    assert (await verify_run(run, game=brought)).verdict == "same"
    assert mark.exists()


async def test_bundles_of_strangers(tmp_path: Path) -> None:
    path = nim_bundle(tmp_path / "nim.zip")
    found = await verify_run(path)
    assert (found.verdict, found.code) == ("cannot", "game_unknown")
    async with Verifier(NIM) as verifier:
        (found,) = await verifier.verify([("nim", path)])
        assert (found.verdict, found.checked) == ("same", ("files", "replay", "results"))
        data = path.read_bytes()
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
            try:
                (found,) = await verifier.verify([("nim", path)])
            except UsageError:
                # It is no bundle any more
                continue
            # Not every byte of a zip is content: times and attributes of its entries are not
            if found.ok:
                assert found.checked == ("files", "replay", "results")
        bomb = b"\0" * (300 << 20)
        manifest = {"ereq_id": "ereq_x", "status": "success", "include": ["replay"], "files": {"replay": "replay"}}
        contents = {"manifest.json": json.dumps(manifest).encode(), "replay": gzip.compress(bomb, 1)}
        path.write_bytes(zip_of(contents))
        (found,) = await verifier.verify([("nim", path)])
        assert (found.verdict, changed(found)) == ("different", ["replay"])
    make_key(tmp_path / "key")
    found = await verify_run(nim_bundle(tmp_path / "two.zip"), game=NIM, trusted=read_public_keys(tmp_path / "key.pub"))
    assert (found.verdict, changed(found)) == ("different", ["two.zip"])


async def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for place, code in (
        (tmp_path, "not_an_episode"),
        (tmp_path / "text", "not_an_episode"),
        (tmp_path / "no", "path_missing"),
    ):
        with pytest.raises(UsageError) as refused:
            await verify_run(place)
        assert refused.value.code == code


# --- certifications --------------------------------------------------------------------------------------------------


async def test_a_certification_is_verified_with_its_certificate(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    async with world() as good:
        place = tmp_path / "out"
        options = replace(fast(), signer=read_signing_key(tmp_path / "key"), published="0.1.26")
        assert (await good.certify(place, options=options)).ok
    trusted = read_public_keys(tmp_path / "key.pub")
    found = await verify_run(place, trusted=trusted)
    assert (found.verdict, found.files, found.checked[0]) == ("cannot", (), "certificate")
    for name in ("certificate.json", "certification.json", "certified_manifest.json", "episode/results.json"):
        data = (place / name).read_bytes()
        for at in range(0, len(data), max(len(data) // 20, 1)):
            (place / name).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            found = await verify_run(place, trusted=trusted)
            assert (found.verdict, name in changed(found)) == ("different", True), (name, at)
        (place / name).write_bytes(data)


# --- many ------------------------------------------------------------------------------------------------------------


async def test_a_season_is_verified_and_gone_on_with(tmp_path: Path) -> None:
    from coworld_runner.evaluation.tournament import add_entrant, create_tournament, play_tournament

    place = tmp_path / "league"
    await create_tournament(place, str(NIM), rounds=10, seed=1)
    for player in ("counter", "random"):
        await add_entrant(place, player)
    await play_tournament(place)
    whole = await verify_many(place)
    assert (whole.verified, whole.verdict, set(whole.reasons), whole.others) == (20, "cannot", {"only_row"}, ())
    assert whole.verdicts["same"] > 0
    assert not (place / VERIFIED_NAME).exists()
    with anyio.CancelScope() as scope:
        await verify_many(place, players=True, keep=True, sample=4)
        await verify_many(place, players=True, keep=True, tell=lambda *_: scope.cancel())
    assert (place / VERIFIED_NAME).read_bytes().count(b"\n") >= 4
    again = await verify_many(place, players=True, keep=True)
    assert (again.verified, again.verdict, again.kept >= 4) == (20, "same", True)
    assert (await verify_many(place, keep=True, sample=5)).kept == 20
    (place / VERIFIED_NAME).unlink()
    kept = next(path for path in sorted((place / "episodes").glob("block-*")) if (path / "results.json").exists())
    (kept / "results.json").write_text('{"scores": [0, 0], "ticks": 3}\n')
    assert [one.run for one in (await verify_many(place, players=True)).others] == [kept.name]
    log = place / "events.ndjson"
    log.write_text(log.read_text().replace('"scores":[1.0,0.0]', '"scores":[0.0,1.0]', 1))
    found = await verify_many(place, players=True)
    assert found.verdict == "different"
    assert "events.ndjson" in [file.path for one in found.others for file in one.files]


async def test_rows_lead_nowhere_else(nim_run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(nim_run, target_is_directory=True)
    shutil.copytree(nim_run, tmp_path / "own")
    record = read_record(nim_run)
    common: dict[str, Any] = {"run_id": record.run_id, "status": "completed", "ok": True, "seconds": 0.1}
    common |= {"scores": record.scores, "seed": record.seed}
    places = ("own", str(nim_run), f"own/../../{nim_run.name}", "link", "gone")
    rows = [EpisodeRow(index=at, key=f"row-{at}", workspace=place, **common) for at, place in enumerate(places, 1)]
    rows.append(rows[0].model_copy(update={"index": 6, "key": "row-6", "scores": (9.0, 9.0)}))
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(row.to_line() for row in rows))
    found = await verify_many(tmp_path)
    assert found.verdicts == {"different": 4, "same": 1, "cannot": 1}
    assert [(one.run, one.files[0].path) for one in found.others] == [(f"row-{at}", "the row") for at in (2, 3, 4, 6)]


async def test_the_runs_of_an_index_are_verified(nim_run: Path, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        shutil.copytree(nim_run, tmp_path / "results" / name)
    (tmp_path / "results" / "bad" / "replay").write_bytes(b"")
    told: list[int] = []
    with LocalRuns(tmp_path, index=tmp_path / "index.sqlite3") as runs:
        found = await verify_local_runs(runs.runs().runs, tell=lambda _, done: told.append(done))
    assert (found.verified, found.verdicts, told) == (2, {"same": 1, "different": 1}, [1, 2])
    assert found.others[0].run.endswith("bad")


@pytest.mark.slow
async def test_a_batch_that_programs_played_is_verified(tmp_path: Path) -> None:
    async with contest() as small:
        place = await held(small, tmp_path / "league", "first", "second")
        await played_on(small, place)
    found = await verify_many(place)
    assert (found.verdict, found.verdicts) == ("cannot", {"cannot": found.verified})
    assert set(found.reasons) == {"not_replayable"}


async def test_provenance_says_what_the_record_says(run: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    for name in ("ada", "eve"):
        make_key(tmp_path / name)
    sign_records([run], read_signing_key(tmp_path / "ada"))
    path, record = run / PROVENANCE_NAME, read_record(run)
    good = path.read_bytes()
    envelope = json.loads(good)
    payload = base64.b64decode(envelope["payload"])
    # As others check it: the key, and the bytes that the DSSE specification defines
    key: Any = load_pem_public_key((tmp_path / "ada.pub").read_bytes())
    kind = envelope["payloadType"].encode()
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)
    statement = json.loads(payload)
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]} == {
        file.path: file.sha256 for file in record.artifacts
    }
    assert statement["predicate"]["runDetails"]["byproducts"][0]["digest"] == {"sha256": record.digest[7:]}
    for at in range(0, len(good), 67):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert changed(await verify_run(run)) == [PROVENANCE_NAME], at
    # Of another algorithm, by somebody else, or of a record that nobody has signed
    other = {**statement, "subject": [{"name": "results.json", "digest": {"md5": "0" * 32}}]}
    forged = {**envelope, "payload": base64.b64encode(json.dumps(other).encode()).decode()}
    for data in (json.dumps(forged).encode(), signed_provenance(record, read_signing_key(tmp_path / "eve"))):
        path.write_bytes(data)
        assert changed(await verify_run(run)) == [PROVENANCE_NAME]
    path.write_bytes(good)
    assert (await verify_run(run)).verdict == "same"
    reseal(run)
    assert changed(await verify_run(run)) == [PROVENANCE_NAME]


# --- games that are not of the kit -----------------------------------------------------------------------------------


async def test_seats_of_any_game_send_again_what_they_sent(tmp_path: Path) -> None:
    run = await painted(tmp_path / "run")
    found = await verify_run(run)
    assert (found.verdict, found.notes) == ("same", ())
    assert {"results", "files"} < set(found.checked)
    assert {"replay", "frames"} & set(found.checked)
    results = json.loads((run / "results.json").read_text())
    results["scores"] = [score + 1 for score in results["scores"]]
    (run / "results.json").write_text(json.dumps(results))
    reseal(run, results=results, scores=tuple(results["scores"]))
    found = await verify_run(run)
    assert (found.verdict, found.code) == ("different", "game_differs")
    assert "came out, twice" in found.reason


async def test_frames_that_were_forged_are_found(tmp_path: Path) -> None:
    run = await painted(tmp_path / "run")
    lines = (run / "frames.ndjson").read_text().splitlines()
    stay = [line if '"to_game"' not in line else line.replace("right", "left") for line in lines]
    assert stay != lines
    (run / "frames.ndjson").write_text("\n".join(stay) + "\n")
    assert changed(await verify_run(run)) == ["frames.ndjson"]
    reseal(run)
    assert (await verify_run(run)).verdict == "different"
    (run / "frames.ndjson").write_text("\n".join(lines[:-3]) + "\n")
    reseal(run)
    found = await verify_run(run)
    assert (found.verdict, found.code) == ("cannot", "not_repeated")


async def test_a_game_with_hidden_randomness_is_refused(tmp_path: Path) -> None:
    found = await verify_run(await painted(tmp_path / "run", game=lucky_game(tmp_path / "game")))
    assert (found.verdict, found.code) == ("cannot", "rules_unsteady")


@pytest.mark.parametrize(("kept", "verdict"), [(True, "same"), (False, "cannot")])
async def test_a_game_that_asks_models_is_answered_from_what_was_kept(tmp_path: Path, kept: bool, verdict: str) -> None:
    with fake_provider("17 40") as provider:
        models = ModelAccess(providers={"openai": ModelProvider(address=provider.address, key=KEY)}, record=kept)
        run = await painted(tmp_path / "run", game=asking_game(tmp_path / "game"), models=models)
    assert len(provider.calls) == 1
    found = await verify_run(run)
    assert (found.verdict, kept or "no recording of what models were asked" in found.reason) == (verdict, True)


async def test_without_frames_nothing_is_played_again(tmp_path: Path) -> None:
    found = await verify_run(await painted(tmp_path / "run", record="off"))
    assert (found.verdict, found.code, "(frames)" in found.reason) == ("cannot", "not_replayable", True)
