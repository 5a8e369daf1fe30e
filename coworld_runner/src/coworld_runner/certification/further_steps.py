"""The steps beside the published ones: what a game does with bad clients, equal seeds, a browser, and its rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coworld_core.errors import CoworldError
from coworld_core.text.phrases import listed

from ..episode.episode_recorder import require_recording
from ..episode.single import run_episode
from ..evaluation.seats_again import DELAY, play_seats_again, same_parts
from ..package.kit_programs import rules_served
from ..package.plan import plan_episode
from .candidate import Candidate
from .certification_record import Evidence, Level
from .further_episodes import play_further
from .page_checks import look_at_pages
from .rules_audit import audit_served_rules
from .step_answers import (
    StepAnswer,
    failed_on,
    note,
    passed,
    required,
)
from .step_ledger import SCREENSHOTS, StepLedger

__all__ = ["clients_handled", "pages_drawn", "rules_audit", "seed_repeats"]


async def rules_audit(candidate: Candidate, _: StepLedger) -> StepAnswer:
    """The rules of a game of the kit are audited where they are served."""
    replay = candidate.episode.replay
    return await audit_served_rules(
        candidate.manifest,
        replay=replay if replay.exists() else None,
        backend=candidate.backend,
        platform=candidate.platform,
        directory=candidate.layout.logs / "rules-audit",
        timeout=candidate.options.audit_timeout,
    )


async def clients_handled(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    """The game is played again, twice, with clients that misbehave and players that are lost."""
    options = candidate.options.episode
    ledger.further = await play_further(
        candidate.package,
        ledger.played,
        backend=candidate.backend,
        options=dataclasses.replace(options, platform=options.platform or candidate.platform),
        workspace=candidate.layout.workspace,
    )
    evidence = ledger.further.clients
    if any(item.broken for item in evidence):
        return failed_on("game_contract_violation", evidence)
    lost = any(item.code == "reconnects" and item.level == "required" for item in evidence)
    return passed(f"Bad messages did no harm{', and lost players were readmitted' if lost else ''}.", evidence)


async def pages_drawn(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    """A browser shows the game's pages, and what it has shown is kept."""
    options, replay = candidate.options.episode, candidate.options.replay
    seen = await look_at_pages(
        candidate.package,
        candidate.episode.replay,
        backend=candidate.backend,
        publish=candidate.publish,
        options=dataclasses.replace(options, platform=options.platform or candidate.platform),
        replay_options=dataclasses.replace(replay, platform=replay.platform or candidate.platform),
        workspace=candidate.layout.workspace,
    )
    ledger.page_tokens = seen.tokens
    shown: list[Evidence] = []
    for name, picture in seen.pictures.items():
        place = candidate.layout.workspace / SCREENSHOTS / f"{name}.png"
        await anyio.to_thread.run_sync(_keep_picture, place, picture)
        ledger.pictures[name] = picture
        artifact = candidate.layout.relative(place)
        shown.append(note("page_picture", f"The {name} page, as the browser showed it.", artifact=artifact))
    return dataclasses.replace(seen.answer, evidence=(*seen.answer.evidence, *shown))


def _keep_picture(place: Path, picture: bytes) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(picture)


async def seed_repeats(candidate: Candidate, ledger: StepLedger) -> StepAnswer:
    """The two further episodes, which had the same seed, ended alike; and the game repeats what was recorded."""
    assert ledger.further is not None
    repeated = [] if rules_served(candidate.manifest) else [await _plays_again(candidate)]
    results = ledger.further.results
    if results is None:
        detail = "The game takes no seed, so that no two episodes could be compared."
        return passed(f"{detail}{_verifiable(repeated)}", [note("seed_repeats", detail), *repeated])
    promised = "deterministic" in (candidate.manifest.tags or ())
    level: Level = "required" if promised else "advice"
    difference = _difference(*results)
    row = required(
        "seed_repeats",
        ok=difference is None,
        level=level,
        message=f"Two episodes with the same seed {difference or 'ended alike'}.",
        hint=None
        if difference is None
        else "Draw everything random, and the order of everything, from the config's seed; time must not matter.",
    )
    rows = [row, *repeated]
    if row.broken:
        return failed_on("seed_ignored", rows)
    return passed(f"{row.message}{_verifiable(repeated)}", rows)


def _verifiable(repeated: Sequence[Evidence]) -> str:
    """Say that recorded runs can be verified, if that was found."""
    return "".join(" Recorded runs can be verified." for row in repeated if row.code.startswith("verifiable"))


async def _plays_again(candidate: Candidate) -> Evidence:
    """Whether recorded episodes of a game that is not of the kit can be verified: seats send what one has recorded.

    They send it a little later than before; only if another game comes out, once more without that.
    """
    plan = plan_episode(candidate.package)
    options = dataclasses.replace(candidate.options.episode, record="frames", watch=False)
    options = dataclasses.replace(options, platform=options.platform or candidate.platform)
    place = candidate.layout.workspace / "recorded"
    try:
        require_recording(plan, candidate.backend, options)
        record = await run_episode(plan, backend=candidate.backend, workspace=place, options=options)
        if record.status != "completed":
            return note("not_recorded", "Not checked: the episode that was recorded was not played to its end.")
        for delay in (DELAY, 0.0):
            again = await play_seats_again(candidate.package, record, place, backend=candidate.backend, delay=delay)
            if again.results is None:
                return note("not_recorded", f"Not checked: seats could not send it again. {again.problem}.")
            same = same_parts(record, place, again)
            if "results" in same and len(same) > 1:
                when = " again, a little later" if delay else " again at the same times"
                message = f"When its seats sent the same{when}, the same game came out: recorded runs can be verified."
                return note("verifiable" if delay else "verifiable_in_time", message)
    except CoworldError as error:
        # Whatever it is, it says nothing against the game
        return note("not_recorded", f"Not checked: what its seats send could not be recorded here. {error.message}")
    return note(
        "not_verifiable",
        "When its seats sent the same again, another game came out: its runs cannot be verified, even if recorded.",
    )


def _difference(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> str | None:
    """Say how two episodes differ; None if they do not."""
    if first is None or second is None:
        return "did not both have results"
    fields = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if "scores" in fields:
        return f"had the scores {first.get('scores')} and {second.get('scores')}"
    return f"differ in {listed(fields, limit=4)} of their results" if fields else None
