"""The transcript `coworld-executable`: the steps, their checks, and when each passes.

Ids and order of the first ten are the published ones (certification contract, "Steps"). The transcript is data, so
that its digest tells a reader of a certification what was checked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from coworld_core.time_limits import RULES_AUDIT

from .certification_record import StepId

__all__ = ["OWN_STEPS", "TRANSCRIPT", "Transcript", "TranscriptStep"]


@dataclass(frozen=True, kw_only=True)
class TranscriptStep:
    """One row of a transcript."""

    id: StepId
    kind: Literal["auto", "human"]
    """Whether a program or a person carries it out."""
    checks: str
    """What it checks."""
    criterion: str
    """When it passes; the column `pass`."""
    how: str
    """How it is checked."""


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """The steps of a certification."""

    name: str
    steps: tuple[TranscriptStep, ...]

    def markdown(self) -> str:
        """The canonical Markdown: a heading and one pipe table `id | kind | checks | pass | how`."""
        rows = [("id", "kind", "checks", "pass", "how"), ("---",) * 5]
        rows += [(step.id, step.kind, step.checks, step.criterion, step.how) for step in self.steps]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"# {self.name}\n\n{table}\n"

    @property
    def sha256(self) -> str:
        """Digest of the Markdown, in hex."""
        return hashlib.sha256(self.markdown().encode()).hexdigest()


def _step(step_id: StepId, *, checks: str, criterion: str, how: str) -> TranscriptStep:
    return TranscriptStep(id=step_id, kind="auto", checks=checks, criterion=criterion, how=how)


TRANSCRIPT = Transcript(
    name="coworld-executable",
    steps=(
        _step(
            "matriculate",
            checks="The manifest is valid in every field, in its current form.",
            criterion="The strict check has no errors.",
            how="Every rule of the manifest is applied and every issue listed, with its place in the file.",
        ),
        _step(
            "source-resolves",
            checks="The source of every program is where its source_url says.",
            criterion="Every declared GitHub reference is pinned to a full commit, exists, is not empty, and has a "
            "Dockerfile beside or above it.",
            how="The pin is read off the address; the rest is asked of GitHub's contents API.",
        ),
        _step(
            "images-reachable",
            checks="Every image the manifest names can be had, for linux/amd64.",
            criterion="The engine has or gets each of them for that platform.",
            how="Each image is looked for locally and pulled when absent, all at once, before any clock of the "
            "episode runs.",
        ),
        _step(
            "fixture-conforms",
            checks="The certification fixture and every variant are configs the game accepts.",
            criterion="Each satisfies game.config_schema with the tokens a runner adds, and seats as many players as "
            "it names.",
            how="Each config is validated with stand-ins for tokens.",
        ),
        _step(
            "smoke-episode",
            checks="The certification episode runs to its end, and the game keeps the runtime contract meanwhile.",
            criterion="Nothing goes wrong but results, which are judged next; every page is served, every wrong caller "
            "refused with 401, 403 or a close, and viewers are served.",
            how="The fixture is played once, under one deadline. Before its players start, every slot's page and "
            "refusals are tried; during play, a late viewer.",
        ),
        _step(
            "results-conform",
            checks="The results of that episode are what the manifest promises.",
            criterion="results.json satisfies game.results_schema and holds one finite score for every slot.",
            how="The file this run wrote is read once the game is over.",
        ),
        _step(
            "replay-present",
            checks="The episode left a replay.",
            criterion="The replay exists and is not empty.",
            how="The file this run wrote is looked at, and searched for the secrets of the run.",
        ),
        _step(
            "replay-loadable",
            checks="The game shows that replay.",
            criterion="In replay mode, given the replay as a zlib file, it becomes ready, serves the page, and sends a "
            "first message.",
            how="The game's image is started again with the replay alone: as zlib, as gzip, and as it is.",
        ),
        _step(
            "players-run",
            checks="Every bundled player really plays.",
            criterion="Each has a slot in the fixture, was started there, stayed until the game was over, and ended "
            "with status 0.",
            how="Starts and ends of the smoke episode's players are compared with the game's; a seat left early is "
            "tried with its own token.",
        ),
        _step(
            "supporting-roles",
            checks="The reporters, graders, diagnosers, optimizers and commissioners that are declared do their work.",
            criterion="Each is run on the smoke episode, ends with status 0, and leaves what is valid; commissioners "
            "decide a small round. An optimizer without a plan is advice.",
            how="They run as on any episode that is over, without a network. A commissioner is told that the episodes "
            "which it wants ended like the smoke episode. For a published version they are named.",
        ),
    ),
)
"""The steps a Coworld goes through to be Executable."""

OWN_STEPS = (
    _step(
        "clients-handled",
        checks="The game copes with clients that misbehave or lose their connection.",
        criterion="It refuses each slot's token to the other slots, survives malformed, binary and "
        "oversized messages and still ends; it readmits lost players, and serves viewers that come after the end.",
        how="The fixture is played again twice: with such clients beside its players, and with all players stopped "
        "in mid-game.",
    ),
    _step(
        "seed-repeats",
        checks="The same seed gives the same results.",
        criterion="Always; a difference is a warning, unless the manifest has the tag `deterministic`.",
        how="Results of two undisturbed episodes of the fixture with the same seed are compared. A game that is not of "
        "the kit is played once more with what its seats send recorded, and seats then send that again, a little "
        "later: whether the same game comes out is noted.",
    ),
    _step(
        "pages-drawn",
        checks="The pages show something in a browser.",
        criterion="A static replay viewer fetches the smoke episode's replay, draws something, reports no error, and "
        "asks no other host. The same of the game's own pages is advice.",
        how="The fixture is played once more, with a browser as a viewer, and its replay is shown; without a browser "
        "it is not tried.",
    ),
    _step(
        "rules-audit",
        checks="The rules of a game of the kit give the same game wherever it is played, and valid answers.",
        criterion="The audit of the rules has no errors, games in other processes are the same, and so is the smoke "
        "episode's replay when it is played again.",
        how=f"In the game's image, within {RULES_AUDIT:g} s: games of random actions and missed turns are compared, "
        "also in processes with other string hashes.",
    ),
)
"""Steps beside those of the transcript, which no published version has; the last one is for games of the kit."""
