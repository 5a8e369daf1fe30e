"""The player's end of `coworld.seat/1`: connect, answer observations on one's turn, leave when the game is over."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from coworld_core.errors import UsageError
from coworld_core.player_seeds import PLAYER_SEED_ENV
from coworld_core.rules import Act, ActionRefused, load_player
from coworld_core.rules.plain_values import action_text, to_json
from coworld_core.rules.player_loader import PlayerForm, is_session, seated
from coworld_core.rules.seat_talk import SeatTalk, takes_talk
from coworld_core.rules.seat_wire import MAX_REFUSED, PROTOCOL

from .connection import SeatError, connected, connected_again, received
from .open_seat import OpenSeat

if TYPE_CHECKING:
    from ssl import SSLContext

    from websockets.asyncio.client import ClientConnection

__all__ = ["Act", "SeatError", "load_player", "play_seat", "seat_seed", "seat_url"]

URL_VARIABLES: Final = ("COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL")
"""Environment variables in which a runner passes the seat's address: the current name and the older one."""

_KINDS: Final = ("hello", "observe", "refused", "over")


def seat_url() -> str:
    """The seat's address from the environment, including the token.

    Raises:
        UsageError: The environment has none.
    """
    for variable in URL_VARIABLES:
        if url := os.environ.get(variable):
            return url
    raise UsageError(f"{URL_VARIABLES[0]} is not set; a runner sets it to the address of the game.", code="no_seat")


def seat_seed() -> int | None:
    """The player's seed from the environment; None in an episode without a seed.

    Raises:
        UsageError: The variable holds no number.
    """
    text = os.environ.get(PLAYER_SEED_ENV)
    try:
        return int(text) if text else None
    except ValueError:
        raise UsageError(f"{PLAYER_SEED_ENV} is {text!r}; a seed is a whole number.", code="no_seat") from None


async def play_seat(
    player: PlayerForm, url: str, *, seed: int | None = None, ssl: SSLContext | None = None
) -> dict[str, Any] | None:
    """Play one game to its end, and reconnect after a lost connection.

    Args:
        player: A function `act`; a class or an object with `act`, and optionally `start` and `over`; or a session,
            `async def play(seat)`, which handles the messages itself, so that its game may have any protocol. An `act`
            with a fourth argument, `talk` (`SeatTalk`), hears other seats and speaks to them.
        url: The address of its seat.
        seed: The seed of the player's `rng`; by default the one that the runner has set, if any (`seat_seed`).
        ssl: Whom to trust if the address is wss://; by default `coworld_client.tls.tls_context()`.

    Returns:
        The game's last message, `over`. None if the game closed the connection normally without it, or cannot be
        reached any more after it has greeted this player: a game may end while a slow player is still answering. Always
        None for a session.

    Raises:
        SeatError: The game cannot be reached, is not trusted (`tls_failed`), refuses this player, speaks another
            protocol, has sent a message of more than 16 MiB, or has refused too many of its actions; the network to it
            is gone (`link_lost`); or the player raised an exception, which is then the cause.
    """
    rng = random.Random(seat_seed() if seed is None else seed)
    if is_session(player):
        await _play_session(player, url, rng, ssl)
        return None

    sitting = _SeatState(player, rng)
    try:
        return await _sit(sitting, url, ssl)
    finally:
        await sitting.close()


async def _sit(seat: _SeatState, url: str, ssl: SSLContext | None) -> dict[str, Any] | None:
    from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

    socket: ClientConnection | None = await connected(url, ssl)
    while socket is not None:
        try:
            async with socket:
                return await seat.converse(socket, url)
        except ConnectionClosedOK:
            return None
        except ConnectionClosedError as lost:
            socket = await connected_again(url, lost, greeted=seat.greeted, ssl=ssl)
    return None


async def _play_session(play: PlayerForm, url: str, rng: random.Random, ssl: SSLContext | None) -> None:
    async with OpenSeat(url, rng=rng, ssl=ssl) as seat:
        try:
            await play(seat)
        except SeatError:
            raise
        except Exception as error:
            raise SeatError(f"The player failed: {_describe_error(error)}", code="player_failed") from error


class _SeatState:
    def __init__(self, player: PlayerForm, rng: random.Random) -> None:
        try:
            self._player: Any = seated(player)
        except Exception as error:
            raise SeatError(
                f"The player failed before its game: {_describe_error(error)}", code="player_failed"
            ) from error
        act: Any = getattr(self._player, "act", self._player)
        talks = takes_talk(act)

        def decide(asked: dict[str, Any]) -> Any:
            self._talk = SeatTalk(asked.get("heard") or ())
            talk = (self._talk,) if talks else ()
            return act(asked["observation"], asked.get("legal"), rng, *talk)

        # Built-in controllers get the whole message; other players get only the arguments of `act`.
        self._decide: Callable[[dict[str, Any]], Any] = getattr(self._player, "decide", decide)
        by = getattr(self._player, "controller", None) if hasattr(self._player, "decide") else None
        self._by = {} if by is None else {"by": by}
        self._take_words: Callable[[], Sequence[Any]] = (
            getattr(self._player, "take_words", self._take_talk) if self._by else self._take_talk
        )
        self._recorded: Callable[[int], Any] | None = getattr(self._player, "words", None) if self._by else None
        """What a built-in controller says at a tick, whether it is to act or not."""
        self._heard: list[Any] = []
        """What others have said since the last decision."""
        self._heard_tick = -1
        self._talk = SeatTalk()
        self._refused = 0
        self._passed = False
        self._asked: dict[str, Any] | None = None
        self.greeted = False
        """Whether the game has sent a message of this protocol."""
        self._started = False

    async def converse(self, socket: ClientConnection, url: str) -> dict[str, Any]:
        while True:
            text = await received(socket, url)
            message = _message(text)
            # Later versions of the protocol may add kinds, but do not begin with one
            if not self.greeted and message.get("type") not in _KINDS:
                first = str(text)
                raise SeatError(
                    f"The game does not speak {PROTOCOL}, and this player has not acted. It sent: {first[:200]}"
                    f"{' …' if len(first) > 200 else ''}",
                    code="other_protocol",
                    hint="A session, `async def play(seat)`, plays games with a protocol of their own.",
                )
            self.greeted = True
            match message.get("type"):
                case "hello":
                    await self._begin(message)
                case "observe":
                    await self._see(socket, message)
                case "say_refused":
                    _say(f"not said in tick {message.get('tick')}: {message.get('reason')}")
                case "refused":
                    await self._heed(socket, message)
                case "over":
                    await self._tell("over", message)
                    return message
                case _:
                    # Messages that later versions of the protocol add are ignored.
                    pass

    async def close(self) -> None:
        """Close a built-in controller, which may then write its artifact."""
        if (close := getattr(self._player, "close", None)) is not None and hasattr(self._player, "decide"):
            await close()

    async def _begin(self, hello: dict[str, Any]) -> None:
        if (protocol := hello.get("protocol")) != PROTOCOL:
            raise SeatError(f"The game speaks {protocol!r}, this player {PROTOCOL}.", code="other_protocol")
        self._listen([one for one in hello.get("talked") or () if one["seat"] != hello.get("seat")])
        # After a reconnection the same game says hello again.
        if not self._started:
            self._started = True
            await self._tell("start", hello)

    async def _see(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        self._listen(message.get("heard") or ())
        if message["tick"] != self._heard_tick:
            self._heard_tick = message["tick"]
            if self._recorded is not None:
                await self._speak(socket, self._recorded(message["tick"]))
        if message.get("your_turn"):
            self._asked = {**message, "heard": self._heard} if self._heard else message
            self._heard = []
            await self._answer(socket)

    def _listen(self, heard: Sequence[Any]) -> None:
        """Take in what others have said; what was said before the tick of the last observation is known."""
        self._heard += [one for one in heard if one["tick"] >= self._heard_tick]

    def _take_talk(self) -> Sequence[Any]:
        words, self._talk.words = self._talk.words, []
        return words

    async def _speak(self, socket: ClientConnection, messages: Sequence[tuple[Any, Any]]) -> None:
        """Say something to other seats; what cannot be sent is not said."""
        from websockets.exceptions import ConnectionClosed

        for text, to in messages:
            try:
                message = to_json({"type": "say", "text": text, "to": to})
            except (TypeError, ValueError, RecursionError) as error:
                _say(f"not said: {error}")
                continue
            # The game's last messages are still to be read.
            with contextlib.suppress(ConnectionClosed):
                await socket.send(message)

    async def _tell(self, form: str, message: dict[str, Any]) -> None:
        """Call `start` or `over`, if the player has it."""
        if (told := getattr(self._player, form, None)) is not None:
            await _run(f"in {form}", told, message)

    async def _heed(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        reason = str(message.get("reason"))
        _say(f"refused in tick {message.get('tick')}: {reason}")
        asked = self._asked
        if asked is None or message.get("tick") != asked.get("tick"):
            return
        # Every refusal lists what is legal now. Without legal actions, or too late, there is nothing to try again.
        if reason.startswith("too late") or (not message.get("legal") and asked.get("legal") is not None):
            return
        # There is still time, so try again with the actions that are legal now.
        asked["legal"] = message.get("legal")
        self._refuse(asked, reason)
        await self._answer(socket)

    def _refuse(self, asked: dict[str, Any], reason: str) -> None:
        self._refused += 1
        if self._refused > MAX_REFUSED:
            raise SeatError(f"{self._refused} actions were refused, the last one: {reason}.", code="seat_hopeless")
        asked["refused"] = reason

    async def _answer(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        asked = self._asked
        assert asked is not None
        where = f"in tick {asked['tick']}"
        said: str | None = None
        while said is None:
            action = await _run(where, self._decide, asked)
            await self._speak(socket, self._take_words())
            if action is None and None not in (asked.get("legal") or ()):
                self._pass(where)
                return
            try:
                said = action_text(action)
            except ActionRefused as refused:
                # As the game would refuse it, if it could be sent.
                _say(f"refused {where}: {refused.message}")
                self._refuse(asked, refused.message)
        about = json.dumps({"type": "act", "tick": asked["tick"], **self._by})
        text = f'{about[:-1]}, "action": {said}}}'
        # The game's last messages, perhaps `over`, are still to be read, and then the reason of the close.
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text)

    def _pass(self, where: str) -> None:
        if not self._passed:
            self._passed = True
            _say(f"no action {where}, so its time passes (and that of later ticks without one)")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _message(text: str | bytes) -> dict[str, Any]:
    """A message of the game; empty if it is none of this protocol."""
    try:
        message: Any = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


async def _run(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        answer: Any = function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except SeatError:
        raise
    except Exception as error:
        raise SeatError(f"The player failed {where}: {_describe_error(error)}", code="player_failed") from error


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
