"""Results as text, for the end of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coworld_core.text import plural

from .text import clean, hint_line, left_behind, number, seconds, shown_name, shown_path, table

if TYPE_CHECKING:
    from coworld_core.episode import BatchSummary, EpisodeLayout, EpisodeRecord, Fault, PlayerSummary, SlotRecord
    from coworld_runner.build import BuildResult
    from coworld_runner.doctor import Check, Machine
    from coworld_runner.episode import PlayLinks
    from coworld_runner.package import EpisodePlan
    from coworld_runner.runs import Sweep

__all__ = [
    "batch_result",
    "build_result",
    "check_lines",
    "describe_seats",
    "episode_result",
    "fault_lines",
    "labelled",
    "machine_checks",
    "next_commands",
    "play_links",
    "step_tag",
    "sweep_result",
]

FOR_YOU = ", for you"
_TAIL_LINES = 12


def labelled(rows: Iterable[tuple[str, str]], *, indent: str = "  ") -> str:
    """Aligned lines, each with a label and its text."""
    return table([(click.style(f"{label}:", dim=True), text) for label, text in rows], indent=indent)


def episode_result(record: EpisodeRecord, layout: EpisodeLayout, *, follow_up: str | None) -> str:
    """How an episode went: scores, what went wrong, where everything is, and what to do next.

    Args:
        record: The episode.
        layout: Where its files are.
        follow_up: The command that shows the replay, if there is one.
    """
    parts = [_headline(record)]
    if record.scores:
        parts.append(_scores(record))
    parts += ["\n".join(fault_lines(fault, layout)) for fault in record.faults]
    remarks = [*record.warnings]
    if record.starvation is not None and record.starvation.starved:
        remarks.append(
            f"{record.starvation.description}; players may have answered late, "
            "and the scores may not be those of a quiet machine."
        )
    if record.leaks:
        remarks.append(left_behind(leak.what for leak in record.leaks))
    if remarks:
        word = click.style("warning:", fg="yellow", bold=True)
        parts.append("\n".join(f"{word} {clean(remark, one_line=True)}" for remark in remarks))
    files = [("Artifacts", layout.workspace)]
    files += [("Results", layout.results)] if layout.results.is_file() else []
    files += [("Replay", layout.replay)] if layout.replay.is_file() else []
    if record.recording is not None and record.recording.path is not None:
        files += [(record.recording.kind.capitalize(), layout.workspace / record.recording.path)]
    files += [("Logs", layout.logs), ("Record", layout.record)]
    rows = [(label, shown_path(path)) for label, path in files]
    if record.model_use is not None:
        rows.append(("Models", clean(str(record.model_use), one_line=True)))
    if record.scores and not sys.stdout.isatty():
        # A line that scripts can parse
        rows.insert(1, ("Scores", ", ".join(f"{slot}={number(score)}" for slot, score in enumerate(record.scores))))
    parts.append(labelled(rows, indent=""))
    if follow_up:
        parts.append(f"Watch it:  {click.style(follow_up, bold=True)}")
    return "\n\n".join(parts)


def _headline(record: EpisodeRecord) -> str:
    name = clean(f"{record.coworld} {record.version}", one_line=True)
    if record.ok:
        verdict = click.style("completed", fg="green", bold=True)
    elif record.status == "completed":
        verdict = click.style(f"completed with {plural(len(record.faults), 'fault')}", fg="red", bold=True)
    else:
        verdict = click.style(clean(record.status, one_line=True), fg="red", bold=True)
    about = click.style(clean(" · ".join(record.about), one_line=True), dim=True)
    return f"{click.style(name, bold=True)} {about}  {verdict} in {seconds(record.seconds)}"


def _scores(record: EpisodeRecord) -> str:
    best = max(record.scores)
    won = [slot for slot, score in enumerate(record.scores) if score == best]
    slots = {slot.slot: slot for slot in record.slots}
    rows: list[tuple[str, str, str, str, str]] = []
    for slot, score in enumerate(record.scores):
        seat = slots.get(slot)
        alone = len(record.scores) == 1
        mark = "" if alone or slot not in won else "winner" if len(won) == 1 else "tie"
        points = click.style(number(score), bold=mark == "winner")
        rows.append(
            (
                click.style(str(slot), dim=True),
                *_who(seat, slot),
                points,
                click.style(mark, fg="green", bold=True) if mark else "",
            )
        )
    return table(rows, right=(3,), indent="  ")


def _who(seat: SlotRecord | None, slot: int) -> tuple[str, str]:
    """A seat's name, and its player if that has another name."""
    if seat is None:
        return f"player {slot}", ""
    return _named(seat.name or f"player {slot}", "a person" if seat.human else seat.player_id or seat.image.image)


def _named(name: str, who: str) -> tuple[str, str]:
    return shown_name(name), "" if who == name else click.style(shown_name(who), dim=True)


def fault_lines(fault: Fault, layout: EpisodeLayout | None = None) -> list[str]:
    """A fault: its cause, the message, the hint, and the last lines of the log.

    Args:
        fault: The fault.
        layout: Where the log is.
    """
    who = f"player {fault.slot}" if fault.party == "player" and fault.slot is not None else fault.party
    lines = [
        f"{click.style('fault:', fg='red', bold=True)} {clean(f'{who} · {fault.error_type}', one_line=True)}",
        f"  {clean(fault.message, one_line=True)}",
    ]
    if fault.hint:
        lines.append(hint_line(fault.hint))
    text = [line for line in clean(fault.log_tail).splitlines() if line.strip()]
    if text:
        name = shown_path(layout.workspace / fault.log) if layout is not None and fault.log else "its log"
        lines.append(f"  {click.style(f'the end of {name}:', dim=True)}")
        lines += [f"    {click.style('│', dim=True)} {line}" for line in text[-_TAIL_LINES:]]
    return lines


def describe_seats(plan: EpisodePlan) -> list[str]:
    """A description of each seat's link."""
    from coworld_core.episode import SeatedPlayer

    return [
        str(SeatedPlayer(name=seat.name, player_id=seat.player_id))
        + (", a bot; this link takes its seat" if seat.runnable is not None else FOR_YOU)
        for seat in plan.seats
    ]


def play_links(links: PlayLinks, about: Sequence[str]) -> str:
    """Each link on a line of its own, so that it can be clicked and copied whole.

    Args:
        links: The links of a running game.
        about: A description of each seat's link.
    """
    rows = [(f"Seat {slot}", clean(about[slot], one_line=True), link) for slot, link in sorted(links.players.items())]
    rows.append(("Watch", "everybody sees this", links.viewer))
    if links.admin is not None:
        rows.append(("Admin", "for the operator", links.admin))
    rows += [(f"Port {port}", "", address) for port, address in sorted(links.local_ports.items())]
    lines: list[str] = []
    for label, word, link in rows:
        mine = word.endswith(FOR_YOU)
        lines.append(f"  {click.style(label, bold=True)}  {word if mine else click.style(word, dim=True)}".rstrip())
        lines.append(f"    {click.style(link, fg='green', bold=True) if mine else link}")
    return "\n" + "\n".join(lines) + "\n"


def step_tag(status: str) -> str:
    """The status of a step as a tag; an unknown one, from another version, has no colour."""
    colours = {"pass": "green", "kept": "green", "fail": "red", "lost": "red", "skip": "yellow", "dropped": "yellow"}
    colour = colours.get(status)
    return click.style(f"[{clean(status, one_line=True)}]", fg=colour, bold=status == "fail")


def batch_result(summary: BatchSummary, workspace: Path) -> str:
    """How several episodes went: a row for each, the mean by seat, a row for each player, and the summary's path.

    Args:
        summary: The episodes.
        workspace: The directory that contains them.
    """
    from coworld_core.episode import LOST, variant_text

    name = clean(f"{summary.coworld} {summary.version}", one_line=True)
    verdict = click.style(
        f"{summary.completed} of {plural(summary.planned, 'episode')} completed"
        + (f", {summary.faulted} with faults" if summary.faulted else ""),
        fg="green" if summary.ok else "red",
        bold=True,
    )
    played = clean(variant_text(summary.variant, summary.config_changes), one_line=True)
    about = click.style(f"{played} · {summary.backend}", dim=True)
    names = next((row.slots for row in summary.episodes if row.slots), ())
    seats = max((len(row.scores) or len(row.slots) for row in summary.episodes), default=0)
    shown = [shown_name(seat.name) for seat in names[:seats]]
    shown += [str(slot) for slot in range(len(names), seats)]
    seeded = any(row.seed is not None for row in summary.episodes)
    several = len({row.variant for row in summary.episodes}) > 1
    head = ["episode", *(["variant"] if several else []), *(["seed"] if seeded else []), *shown, "time", ""]
    rows: list[list[str]] = [[click.style(cell, dim=True) for cell in head]]
    for row in summary.episodes:
        scores = [number(score) for score in row.scores] + ["-"] * (seats - len(row.scores))
        best = max(row.scores, default=None)
        if row.scores and row.scores.count(max(row.scores)) == 1 and len(row.scores) > 1:
            winner = list(row.scores).index(max(row.scores))
            scores[winner] = click.style(scores[winner], fg="green", bold=best is not None)
        remark = ""
        if not row.ok:
            who = (
                f"player {row.fault_slot}"
                if row.party == "player" and row.fault_slot is not None
                else row.party or row.status
            )
            remark = click.style(clean(f"{who}: {row.message or row.status}", one_line=True), fg="red")
        elif row.starved:
            remark = click.style("short of processors", fg="yellow")
        seed = [clean(row.variant, one_line=True)] if several else []
        seed += [str(row.seed) if row.seed is not None else "-"] if seeded else []
        rows.append([str(row.index), *seed, *scores, seconds(row.seconds), remark])
    if summary.mean_scores:
        means = [click.style(number(round(score, 2)), bold=True) for score in summary.mean_scores]
        rows.append([click.style("mean", bold=True), *[""] * (several + seeded), *means, "", ""])
    numeric = [column for column in range(len(head) - 1) if head[column] != "variant"]
    lost = sum(row.party in LOST for row in summary.episodes)
    return "\n\n".join(
        [
            f"{click.style(name, bold=True)} {about}  {verdict} in {seconds(summary.seconds)}",
            table(rows, right=numeric, indent="  "),
            *([_players(summary.players)] if summary.players else []),
            labelled(
                [
                    ("Artifacts", shown_path(workspace)),
                    ("Summary", shown_path(workspace / "summary.json")),
                    *([("Lost", f"{plural(lost, 'episode')}, which --resume plays again")] if lost else []),
                ],
                indent="",
            ),
        ]
    )


def _players(players: Sequence[PlayerSummary]) -> str:
    """A row for each player, with all seats that it had."""
    rows = [[click.style(cell, dim=True) for cell in ("player", "", "seats", "episodes", "mean")]]
    for player in players:
        mean = "-" if player.mean_score is None else number(round(player.mean_score, 2))
        rows.append(
            [
                *_named(player.name, player.player_id or player.image),
                ", ".join(map(str, player.slots)),
                str(player.episodes),
                click.style(mean, bold=True),
            ]
        )
    return table(rows, right=(3, 4), indent="  ")


def sweep_result(swept: Sweep, *, apply: bool, force: bool) -> str:
    """The leftovers that were found, and which of them were removed.

    Args:
        swept: The result of the sweep.
        apply: Whether leftovers were to be removed.
        force: Whether leftovers included those of runs that are still going.
    """
    parts: list[str] = []
    became = {id(item.found): item for item in swept.reaped}
    rows: list[tuple[str, ...]] = []
    for found in swept.found:
        item = became.get(id(found))
        if item is not None and item.removed:
            fate = click.style("removed", fg="green")
        elif item is not None and not (found.alive and not force):
            fate = click.style(f"still there: {clean(item.reason, one_line=True)}", fg="red")
        else:
            fate = click.style("in use", dim=True) if found.alive else ""
        age = f"{seconds(found.age_seconds)} old" if found.age_seconds is not None else ""
        name = clean(found.name, one_line=True)
        if found.kind == "process":
            name = f"{name} (pid {found.id})"
        elif name == found.run_id:
            name = clean(found.id, one_line=True)
        rows.append((found.run_id, found.kind, name, age, fate))
    if rows:
        parts.append(table(rows, indent="  "))
    dead = [found for found in swept.found if not found.alive or force]
    removed = sum(item.removed for item in swept.reaped)
    if apply and swept.reaped:
        parts.append(f"Removed {plural(removed, 'thing')}." if removed else "Nothing was removed.")
    elif dead:
        parts.append(f"Would remove {plural(len(dead), 'thing')}: add --yes to do so.")
    else:
        parts.append("Nothing of a killed run is left." if swept.found else "Nothing is left.")
    parts += [f"Could not look at {clean(reason, one_line=True)}" for reason in swept.unavailable]
    return "\n".join(parts)


_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def check_lines(checks: Sequence[Check]) -> list[str]:
    """A line for each check, and one for its hint."""
    rows = [
        (
            click.style(_MARKS[check.status][0], fg=_MARKS[check.status][1], bold=True),
            check.name,
            clean(check.message, one_line=True),
        )
        for check in checks
    ]
    lines: list[str] = []
    for check, line in zip(checks, table(rows).splitlines(), strict=True):
        lines.append(line)
        if check.hint:
            lines.append(hint_line(check.hint, indent="     "))
    return lines


def machine_checks(machine: Machine) -> str:
    """A line for each check of a machine, with hints, and the backends that work."""
    lines = check_lines(machine.checks)
    works = f"Backends that work here: {', '.join(machine.backends)}."
    none = click.style("No backend works here.", fg="red", bold=True)
    return "\n".join([*lines, "", works if machine.backends else none])


def build_result(result: BuildResult, *, follow_ups: Sequence[str]) -> str:
    """What was built, and what to do with it.

    Args:
        result: The build.
        follow_ups: Commands to run next.
    """
    from coworld_core.manifest import accepted_by

    name = clean(f"{result.manifest.game.name} {result.version}", one_line=True)
    verdict = click.style("built", fg="green", bold=True)
    rows: list[tuple[str, str, str, str]] = []
    for image in result.images.values():
        how = f"built in {seconds(image.seconds)}" if image.service is not None and image.seconds else "unchanged"
        rows.append((image.image, f"→ {image.reference}", image.platform, click.style(how, dim=True)))
    return "\n\n".join(
        [
            f"{click.style(name, bold=True)}  {verdict} in {seconds(result.seconds)}",
            table(rows, indent="  "),
            labelled(
                [
                    ("Manifest", shown_path(result.manifest_path)),
                    ("Accepted by", f"coworld {accepted_by(result.manifest)}"),
                ],
                indent="",
            ),
            table(
                [("Next:" if not index else "", click.style(text, bold=True)) for index, text in enumerate(follow_ups)]
            ),
        ]
    )


def next_commands(commands: Sequence[str]) -> str:
    """What to do next, ready to copy."""
    return table([("Next:" if not index else "", click.style(text, bold=True)) for index, text in enumerate(commands)])
