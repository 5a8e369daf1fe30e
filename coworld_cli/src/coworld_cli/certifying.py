"""Certifying: from options to a verdict on the screen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import click

from coworld_core import durations
from coworld_core.artifacts import EpisodeLayout
from coworld_core.errors import ManifestError
from coworld_core.ids import new_run_id
from coworld_runner.certify import PAGE_NAME, RECORD_NAME, Certification, CertifyOptions, certify, certify_refused
from coworld_runner.certify.record import StepRecord
from coworld_runner.packages import Package
from coworld_runner.workspace import default_workspace

from . import exitcodes
from .browser import open_page, wants_browser
from .episodes import find_package, opened_backend
from .options import BackendFlags
from .progress import show_progress
from .render import labelled, next_commands, step_tag
from .running import Running
from .text import clean, command_line, number, plural, seconds, shown_path

__all__ = ["CertifyFlags", "certify_here", "run", "verdict_text"]


@dataclass(frozen=True, kw_only=True)
class CertifyFlags(BackendFlags):
    """The options of ``certify``, as given."""

    output_dir: Path | None = None
    overwrite: bool = False
    timeout_seconds: float = durations.SMOKE_EPISODE
    offline: bool = False
    open_browser: bool | None = None

    def options(self) -> CertifyOptions:
        """How to certify."""
        defaults = CertifyOptions()
        timeout = self.timeout_seconds
        return CertifyOptions(
            episode=dataclasses.replace(
                defaults.episode,
                timeout=timeout,
                ready_timeout=min(timeout, defaults.episode.ready_timeout),
                watch=True,
            ),
            sources=dataclasses.replace(defaults.sources, offline=self.offline),
            platform=self.platform or defaults.platform,
        )


async def certify_here(flags: CertifyFlags, running: Running) -> tuple[Certification, Path]:
    """Certify a Coworld; returns the verdict and where its evidence is."""
    out = running.out
    run_id = new_run_id()
    try:
        package = await find_package(flags, out)
    except ManifestError as error:
        workspace = _workspace(flags, None, run_id)
        with show_progress(running, flags.manifest) as progress:
            certification = await certify_refused(
                error,
                workspace=workspace,
                overwrite=flags.overwrite,
                listeners=(progress,),
                latest=_latest(flags),
                run_id=run_id,
            )
    else:
        workspace = _workspace(flags, package, run_id)
        async with opened_backend(flags, package, running) as backend:
            with show_progress(running, package.manifest.game.name) as progress:
                certification = await certify(
                    package,
                    backend=backend,
                    workspace=workspace,
                    options=flags.options(),
                    overwrite=flags.overwrite,
                    listeners=(progress,),
                    episode_listeners=(progress,),
                    latest=_latest(flags),
                    run_id=run_id,
                )
    return certification, workspace


async def run(flags: CertifyFlags, running: Running) -> int:
    """Certify a Coworld, and show the verdict."""
    out = running.out
    certification, workspace = await certify_here(flags, running)
    paths = _paths(workspace, certification)
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {name: str(path) if path is not None else None for name, path in paths.items()},
            "ok": certification.ok,
            **certification.model_dump(mode="json", by_alias=True),
        }
    )
    out.say(verdict_text(certification, workspace, flags))
    if wants_browser(flags.open_browser):
        await open_page(paths["report"].as_uri(), out) if paths["report"] is not None else None
    return exitcodes.OK if certification.ok else exitcodes.ANSWER_IS_NO


def _latest(flags: CertifyFlags) -> bool:
    return flags.output_dir is None


def _workspace(flags: CertifyFlags, package: Package | None, run_id: str) -> Path:
    """The output directory: the one that was named, or a fresh one where the package's certifications go."""
    if flags.output_dir is not None:
        return flags.output_dir.expanduser().absolute()
    if package is not None:
        results = package.default_results_dir()
    else:
        given = Path(flags.manifest).expanduser().absolute()
        beside = given if given.is_dir() else given.parent if given.is_file() else None
        results = beside / "results" if beside is not None else Path.cwd() / "coworld-results"
    return default_workspace(results / "certification", run_id)


def _paths(workspace: Path, certification: Certification) -> dict[str, Path | None]:
    layout = EpisodeLayout((workspace / certification.episode).parent) if certification.episode else None
    files = {
        "report": workspace / PAGE_NAME,
        "record": workspace / RECORD_NAME,
        "results": layout.results if layout else None,
        "replay": layout.replay if layout else None,
        "logs": layout.logs if layout else None,
    }
    return {name: path if path is not None and path.exists() else None for name, path in files.items()}


def verdict_text(certification: Certification, workspace: Path, flags: CertifyFlags) -> str:
    """A verdict in words: every step, what is worth mending, and where the evidence is."""
    paths = _paths(workspace, certification)
    name = clean(f"{certification.coworld} {certification.version}", one_line=True).strip() or shown_path(
        flags.manifest
    )
    verdict = (
        click.style(f"certified: {certification.verdict}", fg="green", bold=True)
        if certification.verdict
        else click.style("not certified", fg="red", bold=True)
    )
    about = click.style(certification.backend, dim=True)
    parts = [f"{click.style(name, bold=True)} {about}  {verdict} after {seconds(certification.seconds)}"]
    width = max((len(step.id) for step in certification.steps), default=0)
    parts.append("\n".join(line for step in certification.steps for line in _step_lines(step, width)))
    if certification.advice:
        parts.append(
            "\n".join(
                [
                    f"{plural(len(certification.advice), 'thing')} worth mending:",
                    *(f"  · {clean(item.message, one_line=True)}" for item in certification.advice),
                ]
            )
        )
    parts.append("\n".join(clean(text, one_line=True) for text in (certification.statement, *certification.caveats)))
    labels = {"report": "Report", "record": "Record", "results": "Results", "replay": "Replay", "logs": "Logs"}
    rows = [(labels[key], shown_path(path)) for key, path in paths.items() if path is not None]
    if certification.scores:
        scores = ", ".join(f"{clean(who, one_line=True)} {number(score)}" for who, score in certification.standings)
        rows.insert(2, ("Scores", scores))
    parts.append(labelled(rows, indent=""))
    replay = paths["replay"]
    if replay is not None:
        backend = ["--backend", flags.backend] if flags.backend != "auto" else []
        parts.append(next_commands([command_line("replay", flags.manifest, shown_path(replay), *backend)]))
    return "\n\n".join(parts)


def _step_lines(step: StepRecord, width: int) -> list[str]:
    """A step and its answer; where it failed, also on what, and what to do."""
    lines = [f"  {step_tag(step.status)} {step.id.ljust(width)}  {clean(step.detail, one_line=True)}"]
    if step.status != "fail":
        return lines
    inset = " " * 9
    if len(step.broken) > 1:
        shown = step.broken[:10]
        lines += [f"{inset}· {clean(item.message, one_line=True)}" for item in shown]
        if len(step.broken) > len(shown):
            lines.append(f"{inset}… and {len(step.broken) - len(shown)} more, all in the report")
    tails = [item.log_tail for item in step.broken if item.log_tail.strip()]
    if tails:
        lines += [f"{inset}{click.style('│', dim=True)} {line}" for line in clean(tails[0]).rstrip().splitlines()[-8:]]
    if step.hint:
        lines.append(f"{inset}{click.style('hint:', fg='cyan')} {clean(step.hint, one_line=True)}")
    return lines
