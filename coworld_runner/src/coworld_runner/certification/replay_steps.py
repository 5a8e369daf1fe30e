"""The steps about the replay of the smoke episode: that there is one, and that it can be shown."""

from __future__ import annotations

import dataclasses

import anyio

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import EpisodeError, StartError
from coworld_core.files.compression import Compression
from coworld_core.ports import EXTRA_PORTS_ENV
from coworld_core.text.phrases import listed

from ..errors import OWN_DOING, unwrapped
from ..package.viewer_bundle import find_bundle
from ..replay.replay_session import REPLAY_SUFFIXES, verify_replay
from ..replay.viewer_check import check_viewer_files
from .candidate import Candidate
from .certification_record import Evidence, Level
from .secret_leaks import slots_leaked
from .step_answers import (
    StepAnswer,
    about_results,
    advice,
    failed_on,
    issue_evidence,
    missing,
    note,
    passed,
    required,
    skipped,
)
from .step_ledger import EPISODE, StepLedger

__all__ = ["replay_is_there", "replay_loadable", "replay_present"]


async def replay_present(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    """There is a replay that is not empty; and no file of the episode has a token."""
    leaks = await _token_leaks(candidate.episode, ledger.probes.tokens)
    path, artifact = candidate.episode.replay, f"{EPISODE}/replay"
    if not path.exists():
        if any(not about_results(fault) for fault in ledger.played.faults):
            return missing("smoke-episode", "it ended before there was a replay", leaks)
        hint = "Write the replay to COGAME_SAVE_REPLAY_URI before ending."
        row = required("replay_missing", ok=False, message="The game wrote no replay.", hint=hint)
        return failed_on("replay_missing", [row, *leaks])
    size = path.stat().st_size
    if not size:
        hint = "Write what the replay page needs; an empty file shows nothing."
        row = required("replay_empty", ok=False, message="The replay is empty.", hint=hint, artifact=artifact)
        return failed_on("replay_missing", [row, *leaks])
    row = required("replay_present", ok=True, message=f"The replay has {size} bytes.", artifact=artifact)
    return passed(f"There is a replay of {size} bytes.", [row, *leaks])


async def _token_leaks(layout: EpisodeLayout, tokens: tuple[str, ...]) -> list[Evidence]:
    places = [
        (layout.replay, "token_in_replay", "The replay"),
        (layout.results, "token_in_results", "results.json"),
        (layout.game_stdout, "token_in_game_log", "The game's output"),
        (layout.game_stderr, "token_in_game_log", "The game's error log"),
    ]
    places += [
        (layout.player_log(slot), "token_in_player_log", f"The log of player {slot}") for slot in range(len(tokens))
    ]
    found: list[Evidence] = []
    for path, code, what in places:
        slots = await slots_leaked(path, tokens)
        if slots:
            whose = f"slot{'' if len(slots) == 1 else 's'} {listed([str(slot) for slot in slots])}"
            found.append(
                advice(
                    code,
                    f"{what} holds the secret token of {whose}, for everyone who may read it.",
                    hint="Leave `tokens` out of what is written, and queries out of what is logged.",
                    artifact=f"{EPISODE}/{layout.relative(path)}",
                )
            )
    if tokens and not found:
        found.append(note("tokens_kept", "No token of this run is in the replay, the results or a log."))
    return found


def replay_is_there(candidate: Candidate, _: StepLedger) -> StepAnswer | None:
    """The premise of showing the replay."""
    path = candidate.episode.replay
    there = path.exists() and path.stat().st_size > 0
    return None if there else missing("replay-present", "there is no replay to show")


async def replay_loadable(candidate: Candidate, _: StepLedger) -> StepAnswer:
    """The replay can be shown: in every packing by the game, or by the viewer that the manifest names."""
    viewer = candidate.manifest.game.replay_viewer
    if viewer is not None:
        directory = find_bundle(candidate.package)
        if directory is None:
            detail = "Its replays are shown by a viewer that is not on this machine."
            return skipped("not_applicable", detail, hint="Certify the package's own directory.")
        found = (await check_viewer_files(directory))[1]
        evidence = [issue_evidence(found)]
        return passed(found.message, evidence) if evidence[0].ok else failed_on("replay_unloadable", evidence)
    forms: dict[Compression, Evidence] = {}
    # Units that need the same ports have to run one after the other
    gate = anyio.CapacityLimiter(1 if candidate.manifest.game.runnable.env.get(EXTRA_PORTS_ENV) else 3)

    async def show(packing: Compression) -> None:
        async with gate:
            forms[packing] = await _show(candidate, packing)

    needed: Compression = "zlib" if candidate.options.packs_replays else "none"
    order = sorted(REPLAY_SUFFIXES, key=lambda packing: packing != needed)
    async with anyio.create_task_group() as group:
        for packing in order:
            group.start_soon(show, packing)
    evidence = [forms[packing] for packing in order]
    deciding = evidence[0]
    if deciding.broken:
        return failed_on("replay_unloadable", evidence)
    return passed(deciding.message, evidence)


async def _show(candidate: Candidate, packing: Compression) -> Evidence:
    """Have the game show the replay in one form; the form that viewers serve is required, the others are advice."""
    options, layout = candidate.options.replay, candidate.layout
    level: Level = "required" if (packing == "zlib") == candidate.options.packs_replays else "advice"
    level = "advice" if packing == "gzip" else level
    name = f"replay{REPLAY_SUFFIXES[packing]}"
    logs = layout.logs / f"replay-{'plain' if packing == 'none' else packing}"
    logs.mkdir()
    try:
        with unwrapped():
            seconds = await verify_replay(
                candidate.manifest,
                candidate.episode.replay,
                backend=candidate.backend,
                publish=candidate.publish,
                options=dataclasses.replace(options, platform=options.platform or candidate.platform),
                logs=logs,
                packing=packing,
            )
    except (EpisodeError, StartError) as error:
        if isinstance(error, StartError) and error.code not in OWN_DOING:
            raise
        return Evidence(
            code="replay_unloadable",
            level=level,
            ok=False,
            message=f"Given {name}: {error.message}",
            hint=error.hint,
            artifact=layout.relative(logs / "replay.stderr.log"),
            log_tail=str(error.context.get("log_tail", "")),
        )
    message = f"Given {name}, the game serves the page and sends a first message; {seconds:.1f} s in all."
    return required("replay_shown", ok=True, level=level, message=message)
