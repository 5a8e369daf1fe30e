"""What a seat, the public or all see of a game in its replay: the rules play it again, and nothing is believed."""

from __future__ import annotations

import base64
import html
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from pydantic import ValidationError

from ..errors import UsageError, first_mistake
from .game import Rules, draws_all, draws_seats, is_picture
from .plain_values import to_json
from .play import Play
from .replay import ReplayDiffers, ReplayHeader, RulesReplay, compare, source_digest, started_play, ticks_again
from .rules_errors import ReplayFormatError, RulesError

__all__ = ["Eye", "EyeView", "eye_view", "eye_views", "eyes_of", "read_eye"]

Eye = int | Literal["public", "all"]
"""Who looks: a seat, the public, or, once the game is over, all."""


@dataclass(frozen=True, kw_only=True)
class EyeView:
    """What an eye sees at a tick of a replay.

    Attributes:
        tick: Number of ticks played.
        drawing: The board: `draw` for the seat, None, or `"all"`.
        standing: As far as it may know them: `to_act`, `scores`, `eliminated`, and what else is public as `known`.
        said: What it has heard or said in the last tick: dictionaries with `tick`, `seat`, `text` and `to`.
        observation: What a seat observed, as JSON; None for the other eyes.
        text: The same as text, if the rules provide it.
    """

    tick: int
    drawing: str
    standing: Mapping[str, Any]
    said: tuple[dict[str, Any], ...] = ()
    observation: Any = None
    text: str | None = None

    def _repr_html_(self) -> str:
        # As an image, since whoever drew it may have drawn more than a picture
        if is_picture(self.drawing):
            packed = base64.b64encode(self.drawing.encode()).decode()
            return f'<img alt="Tick {self.tick}" style="max-width:32em" src="data:image/svg+xml;base64,{packed}">'
        shown = self.text or self.drawing or to_json(self.observation)
        return f"<pre>{html.escape(shown)}</pre>"


def read_eye(value: object, seats: int) -> Eye:
    """Read an eye: `public`, `all`, or the number of a seat, also as text.

    Raises:
        UsageError: Code `eye_unknown` if it is something else.
    """
    if value in ("public", "all"):
        return cast("Eye", value)
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 5 else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < seats:
        return number
    problem = f"{str(value)[:_LONGEST]!r} is no eye: there are all, public, and the seats 0 to {seats - 1}."
    raise UsageError(problem, code="eye_unknown")


_LONGEST: Final = 40


def eyes_of(rules: type[Rules], header: ReplayHeader) -> list[Eye]:
    """The eyes that see a replay differently: always `all`, and at most as many seats as the game can have."""
    talks = rules.talk is not None
    public: list[Eye] = ["public"] if talks or draws_all(rules) else []
    told = rules.text is not Rules.text or rules.draw is Rules.draw
    seats = talks or told or header.draws_seats or draws_seats(rules)
    return ["all", *public, *(range(min(header.seats, rules.most_seats or rules.seats)) if seats else ())]


def eye_views(rules: type[Rules], replay: RulesReplay, eye: Eye) -> Generator[EyeView]:
    """What an eye sees at each tick of a replay, beginning with tick 0; the game is played again to get it.

    Args:
        rules: The game.
        replay: The replay; of what it says, the header and the actions are used, and the rest is compared.
        eye: Who looks.

    Raises:
        ReplayFormatError: Code `replay_of_others` if the rules have changed since, and `replay_differs`, after the
            views of earlier ticks, where the game is not what was recorded. The message is for people.
    """
    with _explained():
        for play in _played_again(rules, replay):
            yield _seen(play, eye)


def eye_view(rules: type[Rules], replay: RulesReplay, eye: Eye, *, tick: int) -> EyeView:
    """What an eye sees at one tick of a replay.

    Raises:
        ReplayFormatError: As for `eye_views`.
        UsageError: Code `tick_unknown` if there is no such tick.
    """
    with _explained():
        for play in _played_again(rules, replay):
            if play.tick == tick:
                return _seen(play, eye)
    problem = f"The replay has no tick {tick}: it has {len(replay.ticks)}, from 0 on."
    raise UsageError(problem, code="tick_unknown")


def _seen(play: Play, eye: Eye) -> EyeView:
    heard = () if play.talk is None else play.talk.messages
    if not isinstance(eye, str):
        return EyeView(
            tick=play.tick,
            drawing=play.drawing(eye),
            standing=play.standing(eye),
            said=tuple(one.fields() for one in heard if eye in (one.seat, *one.hearers)),
            observation=play.observation(eye),
            text=play.text(eye),
        )
    frame = play.frame()
    return EyeView(
        tick=play.tick,
        drawing=play.revealed() if eye == "all" else frame.drawing,
        standing={"to_act": frame.to_act, **frame.standing(), **frame.known()},
        said=tuple(one.fields() for one in heard if eye == "all" or one.to == "all"),
    )


def _played_again(rules: type[Rules], replay: RulesReplay) -> Generator[Play]:
    """The game at each tick that the replay has."""
    if replay.header.source_sha256 != source_digest(rules):
        raise ReplayFormatError("The rules have changed since the game was played.", code="replay_of_others")
    play = started_play(rules, replay)
    for _ in ticks_again(play, replay, exactly=True):
        yield play
    if play.over and replay.results is not None:
        compare(play.tick, "the outcome", replay.results, play.results())
    if replay.ticks:
        yield play


@contextmanager
def _explained() -> Generator[None]:
    """Say in words for people why a game cannot be played again."""
    try:
        yield
    except ReplayDiffers as error:
        # Without the values, which may be pictures
        problem = f"The game is not what was recorded: played again, {error.what} differs at tick {error.tick}."
        raise ReplayFormatError(problem, code="replay_differs") from error
    except ValidationError as error:
        problem = f"The rules refuse the replay's config: {': '.join(first_mistake(error))}."
        raise ReplayFormatError(problem, code="replay_differs") from None
    except RulesError as error:
        problem = f"The rules fail when the game is played again: {error.message}."
        raise ReplayFormatError(problem, code="replay_differs") from error
