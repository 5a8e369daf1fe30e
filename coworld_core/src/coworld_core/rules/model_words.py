"""What a language model is told and asked in a seat, and the legal actions that its answers mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

__all__ = ["NOTHING", "UNCLEAR", "default_action", "instructions", "question", "spoken", "understood"]

_MOST_FAILED: Final = 200
"""Failed attempts to parse a JSON value in an answer, after which the rest of it is skipped."""

NOTHING: Final = object()
"""No action; not None, which may be an action of the game."""

UNCLEAR: Final = "it names no action that is legal now"
"""Why an answer is refused that means nothing."""

_ROLE: Final = "You play one seat of a game. Choose well, and answer with an action alone."

_MOST_ABOUT: Final = 20_000
"""Characters of a game's description that a model is told."""

_SAY_LINE: Final = re.compile(r"^[ \t]*SAY(?:[ \t]+TO[ \t]+(\d{1,4}|TEAM))?[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)


def instructions(about: object = "") -> str:
    """The system prompt of a seat: the description of the game, and what is wanted.

    Args:
        about: The description, as `hello` has it: the docstring of the rules.
    """
    return f"{about[:_MOST_ABOUT].strip()}\n\n{_ROLE}" if isinstance(about, str) and about.strip() else _ROLE


def question(asked: Mapping[str, Any], schema: Any, talk: Mapping[str, Any] | None = None) -> str:
    """The question for one decision: what the seat sees and hears, and what it may do and say.

    Args:
        asked: The observation.
        schema: The schema of actions.
        talk: What the game allows seats to say to each other; None: nothing.
    """
    seen = asked.get("text") or _json(asked.get("observation"))
    if heard := cast("Sequence[Mapping[str, Any]]", asked.get("heard") or ()):
        lines = [f"Seat {one['seat']}{'' if one['to'] == 'all' else ' (not to all)'}: {one['text']}" for one in heard]
        seen = "\n".join([f"{seen}\n\nOther seats have said:", *lines])
    if (legal := asked.get("legal")) is not None:
        may = "Legal actions:\n" + "\n".join(map(_json, legal)) + "\n\nAnswer with one of them, on the last line."
    elif _is_text(schema):
        may = "Answer with your words alone."
    else:
        may = f"Answer with an action as JSON, by this schema:\n{_json(schema)}"
    if talk is not None:
        ways = {"all": "SAY: …", "seat": "SAY TO 1: … (to seat 1 alone)", "team": "SAY TO TEAM: …"}
        may += (
            f"\n\nBefore that you may say something to others, in at most {talk['length']} characters, in a line of "
            f"this form: {' or '.join(ways[kind] for kind in talk['to'] if kind in ways)}"
        )
    refused = f"\n\nYour last answer was refused: {asked['refused']}" if asked.get("refused") else ""
    return f"{seen}\n\n{may}{refused}"


def spoken(answer: str, talk: Mapping[str, Any] | None) -> tuple[str, list[tuple[str, str | int]]]:
    """What is left of an answer without the lines in which it says something to other seats, and these.

    Args:
        answer: The answer.
        talk: What the game allows; what is too long is cut, and what is too much left out.
    """
    if talk is None:
        return answer, []
    words: list[tuple[str, str | int]] = []
    for to, text in _SAY_LINE.findall(answer):
        words.append((text[: talk["length"]], "all" if not to else "team" if to == "TEAM" else int(to)))
    return _SAY_LINE.sub("", answer), words[: talk["per_tick"]]


def understood(answer: str, legal: Sequence[Any] | None, schema: Any) -> Any:
    """The action that an answer means: the last that it names; `NOTHING` if it names none or is ambiguous."""
    if legal is None:
        if _is_text(schema):
            return answer.strip() or NOTHING
        values = _values(answer)
        return values[-1] if values else NOTHING
    for value in reversed(_values(answer)):
        if (found := _found(value, legal)) is not NOTHING:
            return found
    for text in (answer, *reversed(answer.splitlines())):
        plain = text.strip().strip("`'\"*.!").casefold()
        if len(same := [action for action in legal if _shown(action).casefold() == plain]) == 1:
            return same[0]
    named = [action for action in legal if _names(answer, _shown(action))]
    return named[0] if len(named) == 1 else NOTHING


def default_action(legal: Sequence[Any] | None, schema: Any) -> Any:
    """The first legal action; if the game lists none, a full stop for actions that are text, otherwise `NOTHING`."""
    if legal:
        return legal[0]
    return "." if legal is None and _is_text(schema) else NOTHING


def _found(value: Any, legal: Sequence[Any]) -> Any:
    """The legal action that equals a value, or the only field of an object that wraps it."""
    wrapped = list(value.values())[:1] if isinstance(value, dict) and len(value) == 1 else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for meant in (value, *wrapped):  # pyright: ignore[reportUnknownVariableType]
        for action in legal:
            # True is 1 in Python and is not in JSON.
            if _json(action) == _json(meant):
                return action
    return NOTHING


def _values(text: str) -> list[Any]:
    """The JSON values in a text, in order; of nested values, only the outermost."""
    decoder, found, at, left = json.JSONDecoder(), list[Any](), 0, _MOST_FAILED
    for match in re.finditer(r'[{\["]|-?\d+|\b(?:true|false|null)\b', text):
        if match.start() >= at:
            try:
                value, at = decoder.raw_decode(text, match.start())
            except (ValueError, RecursionError):
                left -= 1
                if not left:
                    break
                continue
            found.append(value)
    return found


def _names(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _shown(action: Any) -> str:
    return action if isinstance(action, str) else _json(action)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
