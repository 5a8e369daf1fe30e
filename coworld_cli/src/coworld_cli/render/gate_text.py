"""Gates and the bots of a folder, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import plural

from .results import labelled
from .text import clean, command_line, hint_line, shown_name, shown_path, table

if TYPE_CHECKING:
    from coworld_core.evaluation import BotReport, BotsReport, GateMeasurement
    from coworld_runner.evaluation.gate import GateFolder, GateLook, GateOutcome

__all__ = ["bots_text", "gate_answer", "gate_result", "look_answer", "look_line"]

_COLOURS = {"accepted": "green", "better": "green", "rejected": "red", "worse": "red", "equal": "cyan"}
_ROLES = {"accepted": " (accepted)", "earlier": " (earlier)"}
_GROUND = {"better": "gained ground", "worse": "lost ground"}
_GATES = 5


def gate_answer(outcome: GateOutcome) -> dict[str, Any]:
    """A gate as JSON."""
    return {
        "ok": outcome.accepted,
        "unchanged": outcome.unchanged,
        "repeated": outcome.repeated,
        "notes": list(outcome.notes),
        "paths": {
            "history": str(outcome.folder.log),
            "directory": str(outcome.folder.gate(outcome.record.gate)),
            "player": str(outcome.folder.version(outcome.record.bot)),
        },
        **outcome.record.model_dump(mode="json"),
    }


def gate_result(outcome: GateOutcome) -> str:
    """A gate as text: the decision, what it follows from, and what to do next."""
    record, folder = outcome.record, outcome.folder
    bot = clean(str(record.bot), one_line=True)
    if outcome.unchanged:
        since = f"{record.time.astimezone():%Y-%m-%d %H:%M}"
        return click.style(f"{bot} is the accepted version, since {since}.", fg="green", bold=True)
    said = f"{record.status.capitalize()}: {bot}. {clean(record.message, one_line=True)}"
    parts = [click.style(said, fg=_COLOURS.get(record.status), bold=True)]
    met = [one for one in record.measurements if one.role != "first"]
    if met:
        head = ["against", "blocks", "won", "lost", "drawn", "Elo", "verdict"]
        rows = [[click.style(word, dim=True) for word in head], *map(_measured, met)]
        parts.append(table(rows, right=(1, 2, 3, 4), indent="  "))
    notes = [*outcome.notes]
    if outcome.repeated:
        notes.append("This version was gated before, and this is the same measurement: nothing was entered again.")
    word = click.style("note:", fg="yellow", bold=True)
    if notes:
        parts.append("\n".join(f"{word} {clean(note, one_line=True)}" for note in notes))
    if record.reason == "undecided":
        hint = "More blocks go on where this has ended (--max-blocks); --margin X accepts what is as good; --accept "
        parts.append(hint_line(f"{hint}accepts it as it is.", indent=""))
    where = [("History", shown_path(folder.log))]
    if met:
        where.insert(0, ("Measured", shown_path(folder.gate(record.gate))))
        where.insert(0, ("Base seed", str(record.seed)))
    where.append(("Show it", command_line("bots", shown_path(folder.directory))))
    return "\n\n".join([*parts, labelled(where, indent="")])


def _measured(one: GateMeasurement) -> list[str]:
    results = one.results
    verdict = click.style(clean(one.verdict.replace("_", " "), one_line=True), fg=_COLOURS.get(one.verdict))
    if one.before is not None:
        ground = click.style(_GROUND.get(one.verdict, "held its ground"), fg=_COLOURS.get(one.verdict))
        verdict = f"{ground} (before: {one.before})"
    return [
        clean(f"{one.player}{_ROLES.get(one.role, '')}", one_line=True),
        str(one.blocks),
        str(results.won),
        str(results.lost),
        str(results.drawn),
        str(results.elo) if results.elo is not None else "–",
        verdict,
    ]


def look_answer(look: GateLook) -> dict[str, Any]:
    """A quick comparison as JSON."""
    return {
        "version": look.version.model_dump(mode="json") if look.version is not None else None,
        "against": look.against.model_dump(mode="json") if look.against is not None else None,
        "problem": look.problem or None,
        "note": look.note or None,
        "report": look.report.model_dump(mode="json") if look.report is not None else None,
    }


def look_line(look: GateLook) -> str:
    """A quick comparison as a line or two."""
    from coworld_core.evaluation import UNMEASURED, ComparisonReport

    who = clean(str(look.version), one_line=True) if look.version is not None else ""
    note = f". {clean(look.note, one_line=True)}" if look.note else ""
    if look.report is None:
        hint = f"\n{hint_line(look.hint)}" if look.hint else ""
        problem = clean(look.problem, one_line=True)
        colour = "red" if look.version is None else None
        return click.style(f"{f'{who}: ' if who else ''}{problem}", fg=colour) + hint
    against = f" against {clean(str(look.against), one_line=True)}" if look.against is not None else ""
    report = look.report
    if not isinstance(report, ComparisonReport):
        return f"{who}: {clean(str(report), one_line=True)}"
    forfeits = sum(one.forfeits for one in report.entrants if one.label == "new")
    failed = click.style(f", {plural(forfeits, 'episode')} forfeited", fg="red") if forfeits else ""
    if report.stopped in UNMEASURED:
        return f"{who}{against}: {click.style(clean(report.headline, one_line=True), fg='red')}"
    verdict = click.style(report.verdict.replace("_", " "), fg=_COLOURS.get(report.verdict))
    elo = f", Elo {report.elo}" if report.elo is not None else ""
    counts = f"{report.won} won, {report.lost} lost, {report.drawn} drawn"
    return f"{who}{against}: {verdict}, {counts}{elo}{failed}{note}"


def bots_text(report: BotsReport, folder: GateFolder) -> str:
    """The bots of a folder as text."""
    about = " ".join(filter(None, (report.coworld, report.version, report.variant)))
    where = shown_path(folder.directory)
    where = clean(str(folder.directory), one_line=True) if where == "." else where
    title = f"{click.style(where, bold=True)}{click.style(f' · {about}' if about else '', dim=True)}"
    head = ["bot", "accepted", "rating", "versions", "gates", "last gate"]
    rows = [[click.style(word, dim=True) for word in head], *map(_bot_row, report.bots)]
    parts = [f"{title}\n{table(rows, right=(2, 3, 4), indent='  ')}"]
    for bot in report.bots:
        name = click.style(clean(bot.name, one_line=True), bold=True)
        if bot.circle_sentence:
            said = clean(bot.circle_sentence, one_line=True)
            parts.append(f"{name}: {click.style(said, fg='yellow')}")
        if bot.against:
            losing = [
                [
                    shown_name(str(one.player)),
                    str(one.results.won),
                    str(one.results.lost),
                    str(one.results.drawn),
                    str(one.results.elo) if one.results.elo is not None else "–",
                ]
                for one in bot.against
            ]
            heads = [click.style(word, dim=True) for word in ("against", "won", "lost", "drawn", "Elo")]
            parts.append(f"{name}\n{table([heads, *losing], right=(1, 2, 3), indent='  ')}")
        gates = [
            [
                f"{gate.time.astimezone():%Y-%m-%d %H:%M}",
                gate.bot.version,
                click.style(clean(gate.status, one_line=True), fg=_COLOURS.get(gate.status)),
                clean(gate.message, one_line=True),
            ]
            for gate in bot.gates[:_GATES]
        ]
        more = len(bot.gates) - _GATES
        rest = f"\n  … and {more} older" if more > 0 else ""
        parts.append(f"{name}: gates\n{table(gates, indent='  ')}{rest}")
    return "\n\n".join([*parts, labelled([("Page", command_line("bots", where, "--html", "bots.html"))], indent="")])


def _bot_row(bot: BotReport) -> list[str]:
    now = bot.present
    rating = f"{now.rating:+.0f}" if now is not None and now.rating is not None else "–"
    last = bot.gates[0].status if bot.gates else "–"
    return [
        clean(bot.name, one_line=True),
        now.player.version if now is not None else "–",
        rating,
        str(len(bot.versions)),
        str(len(bot.gates)),
        click.style(clean(last, one_line=True), fg=_COLOURS.get(last)),
    ]
