"""What the commands that play have in common: from options to a plan, from a plan to a result on the screen."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import BatchSummary, EpisodeRecord
from coworld_core.errors import UsageError
from coworld_core.ids import new_run_id
from coworld_core.loading import MANIFEST_NAME
from coworld_core.request import load_request
from coworld_runner.backend import Backend
from coworld_runner.backends.registry import ClusterOptions
from coworld_runner.episode import run_episode
from coworld_runner.packages import Package, resolve_package
from coworld_runner.plan import EpisodePlan, plan_episode
from coworld_runner.secret_env import read_secret_env
from coworld_runner.selection import open_backend
from coworld_runner.workspace import default_workspace

from . import exitcodes
from .issues import render_issue
from .options import BackendFlags, EpisodeFlags, given_cluster, refuse_cluster_options
from .output import Output
from .progress import show_progress
from .render import batch_result, episode_result
from .running import Running
from .text import clean, command_line, shown_path

__all__ = ["Prepared", "find_package", "opened_backend", "prepare", "run", "workspace_for"]

_COWORLD_ID = re.compile(r"(?:/v2/coworlds/)?(?P<id>cow_[A-Za-z0-9_-]{1,120})/?")
"""An argument that names a Coworld of a platform."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What is to be played, before anything is started."""

    package: Package
    plan: EpisodePlan


async def find_package(flags: BackendFlags, out: Output) -> Package:
    """The package a command is about; what there is to say about its manifest is said."""
    await _have(flags)
    package = await resolve_package(flags.manifest, server=flags.server)
    told = [issue for issue in package.report.issues if issue.severity == "warning" or issue.code == "template_newer"]
    for issue in told[:3]:
        out.note(render_issue(package.report.source, issue))
    if len(told) > 3:
        out.note(f"… and {len(told) - 3} more: {command_line('validate', flags.manifest)}")
    return package


async def _have(flags: BackendFlags) -> None:
    """Download a Coworld that is named by its id, unless it is here; ``resolve_package`` finds it then."""
    match = _COWORLD_ID.fullmatch(flags.manifest.strip())
    if match is None or await anyio.Path("coworld", match["id"], MANIFEST_NAME).is_file():
        return
    from .platform_downloads import have_coworld
    from .platform_options import Connection
    from .platform_run import opened

    async with opened(Connection(server=flags.server), anonymous=True) as api:
        await have_coworld(api, match["id"])


async def prepare(flags: EpisodeFlags, out: Output) -> Prepared:
    """Find the package and say what is to be played."""
    package = await find_package(flags, out)
    secrets = await _secrets(flags, out)
    request_path = _request_path(flags.players)
    if request_path is None:
        plan = plan_episode(
            package,
            variant=flags.variant,
            players=flags.players,
            run=flags.run,
            humans=flags.human,
            secret_env=secrets,
            seed=flags.seed,
        )
        return Prepared(package=package, plan=plan)
    if len(flags.players) > 1:
        raise UsageError(
            f"{shown_path(request_path)} is an episode request, which says who plays; nothing can follow it.",
            code="request_excludes_options",
        )
    loaded = load_request(request_path, manifest=package.manifest)
    plan = plan_episode(
        package,
        request=loaded,
        variant=flags.variant,
        run=flags.run,
        humans=flags.human,
        secret_env=secrets,
        seed=flags.seed,
    )
    return Prepared(package=package, plan=plan)


def _request_path(players: tuple[str, ...]) -> Path | None:
    """The episode request, when the first of the positional arguments is one: a file, or anything ending in .json."""
    if players and (players[0].endswith(".json") or Path(players[0]).is_file()):
        return Path(players[0])
    return None


async def _secrets(flags: EpisodeFlags, out: Output) -> Mapping[str, str]:
    secrets = read_secret_env(flags.secret_env, files=flags.secret_env_file, environment=os.environ)
    if secrets.exposed:
        out.warn(
            f"the value of {', '.join(secrets.exposed)} stood on the command line, where process lists and "
            "shell history show it. Use --secret-env NAME, or --secret-env-file."
        )
    if not flags.use_bedrock:
        return secrets.values
    from coworld_runner.bedrock import bedrock_environment

    credentials = await bedrock_environment(environment=os.environ, profile=flags.aws_profile, region=flags.aws_region)
    return {**credentials, **secrets.values}


@asynccontextmanager
async def opened_backend(flags: BackendFlags, package: Package, running: Running) -> AsyncGenerator[Backend]:
    """The backend a package runs on, entered; which one and why is narrated."""
    refuse_cluster_options(flags.backend)
    cluster = ClusterOptions(**given_cluster())
    async with open_backend(flags.backend, package, cluster=cluster) as (backend, choice):
        running.out.note(f"Backend: {backend.name} ({clean(choice.reason, one_line=True)})")
        with running.on_hurry(backend.hurry):
            yield backend


def workspace_for(flags: EpisodeFlags, package: Package, run_id: str) -> Path:
    """The output directory: the one that was named, or a fresh one where the package's results go."""
    if flags.output_dir is not None:
        return flags.output_dir.expanduser().absolute()
    return default_workspace(package.default_results_dir(), run_id)


async def run(flags: EpisodeFlags, running: Running) -> int:
    """Play one episode or several, and show what came of it."""
    out = running.out
    if flags.resume and (flags.output_dir is None or flags.episodes < 2 or flags.overwrite):
        raise UsageError(
            "--resume goes on with several episodes in the directory that they were begun in.",
            code="nothing_to_resume",
            hint="Repeat the command that was cut short, with the same --episodes and -o, and without --overwrite.",
        )
    prepared = await prepare(flags, out)
    run_id = new_run_id()
    workspace = workspace_for(flags, prepared.package, run_id)
    record: EpisodeRecord | None = None
    summary: BatchSummary | None = None
    async with opened_backend(flags, prepared.package, running) as backend:
        with show_progress(running, prepared.plan.manifest.game.name) as progress:
            if flags.episodes > 1:
                from coworld_runner.batch import run_batch

                progress.expect(flags.episodes)
                summary = await run_batch(
                    prepared.plan,
                    episodes=flags.episodes,
                    parallel=flags.parallel,
                    backend=backend,
                    workspace=workspace,
                    options=flags.options(watch=out.live),
                    overwrite=flags.overwrite,
                    resume=flags.resume,
                    listeners=(progress,),
                    episode_listeners=progress.episode_listeners,
                    latest=flags.output_dir is None,
                )
                if flags.verify_replay:
                    out.note("Verifying the replays …")
                    from coworld_runner.verification import verify_batch_replays

                    summary = await verify_batch_replays(
                        prepared.plan, summary, workspace=workspace, backend=backend, listeners=(progress,)
                    )
            else:
                record = await run_episode(
                    prepared.plan,
                    backend=backend,
                    workspace=workspace,
                    options=flags.options(watch=not out.quiet),
                    overwrite=flags.overwrite,
                    listeners=(progress,),
                    latest=flags.output_dir is None,
                    run_id=run_id,
                )
                if flags.verify_replay:
                    out.note("Verifying the replay …")
                    from coworld_runner.verification import verify_episode_replay

                    record = await verify_episode_replay(
                        prepared.plan, record, workspace=workspace, backend=backend, listeners=(progress,)
                    )
    if summary is not None:
        return show_batch(summary, workspace, out)
    assert record is not None
    return show_episode(record, workspace, flags, out)


def show_episode(record: EpisodeRecord, workspace: Path, flags: EpisodeFlags, out: Output) -> int:
    """Write the result of an episode, and return the exit status."""
    layout = EpisodeLayout(workspace)
    out.answer(
        {"workspace": str(workspace), "paths": _paths(layout), "ok": record.ok, **record.model_dump(mode="json")}
    )
    out.say(episode_result(record, layout, follow_up=_replay_command(flags, layout)))
    return exitcodes.OK if record.ok else exitcodes.ANSWER_IS_NO


def show_batch(summary: BatchSummary, workspace: Path, out: Output) -> int:
    """Write the result of several episodes, and return the exit status."""
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {"summary": str(workspace / "summary.json")},
            "ok": summary.ok,
            **summary.model_dump(mode="json"),
        }
    )
    out.say(batch_result(summary, workspace))
    return exitcodes.OK if summary.ok else exitcodes.ANSWER_IS_NO


def _paths(layout: EpisodeLayout) -> dict[str, Any]:
    """Where the files are; null for those that this run has not left."""
    files = {"results": layout.results, "replay": layout.replay, "logs": layout.logs, "record": layout.record}
    return {name: str(path) if path.exists() else None for name, path in files.items()}


def _replay_command(flags: EpisodeFlags, layout: EpisodeLayout) -> str | None:
    """The command that shows the replay, if there is one."""
    if not layout.replay.is_file():
        return None
    backend = ["--backend", flags.backend] if flags.backend != "auto" else []
    return command_line("replay", flags.manifest, shown_path(layout.replay), *backend)
