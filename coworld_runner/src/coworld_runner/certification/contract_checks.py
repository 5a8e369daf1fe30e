"""Stricter checks of the runtime contract, made once, during the smoke episode.

Every episode checks the first slot's page and one wrong token. These checks request every page and try every
kind of wrong caller before the players start. During play they connect a late viewer, and reconnect with the token of a
player that has left.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from urllib.parse import urlencode

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.protocol import State

from ..backend import Unit
from ..episode import contract_probes
from ..web.game_socket import connect_to_game, failure_text, receive
from .certification_record import Evidence, Level
from .step_answers import required

__all__ = [
    "LEAVE_SECONDS",
    "ContractProbes",
    "RefusedCaller",
    "SeatState",
    "answers_ping",
    "drain",
    "try_seat",
    "wrong_callers",
]

LEAVE_SECONDS = 1.0
"""A player that ends this close to the end of the game has stayed: it may learn before us that the game is over."""

MALFORMED_LEVEL: Level = "advice"
"""Level of a malformed query (no slot, no token, or a slot that is not a number) that is answered with a status other
than 401 or 403, or not at all. No caller gets in that way, and published games that certify elsewhere answer with HTTP
500: an unhandled error worth fixing, but no reason to refuse the game."""

SeatState = Literal["open", "closed"]
"""Whether a game lets a player that has left reconnect."""

_OPEN_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_MESSAGE_SECONDS = 10.0
_CONFIRM_SECONDS = 0.5
_PARALLEL = 8
_PONG_SECONDS = 2.0


@dataclass(frozen=True)
class RefusedCaller:
    """One caller that must be refused."""

    code: str
    who: str
    query: dict[str, str]
    slot: int | None = None
    malformed: bool = False


Answer = Literal["refused", "closed", "dropped", "status", "open", "spoke", "silent", "gone"]
"""How `/player` responds, in order: 401 or 403; closes after the handshake; drops the connection; another status;
stays open; sends a message; never answers the handshake; refuses the TCP connection."""


def wrong_callers(tokens: Sequence[str]) -> list[RefusedCaller]:
    """List the callers `/player` must refuse, for slots with these tokens."""
    count = len(tokens)
    knocks: list[RefusedCaller] = []
    for slot in range(count):
        stranger = secrets.token_urlsafe(16)
        knocks.append(
            RefusedCaller(
                "refuses_wrong_token", f"slot {slot} with a token that was not issued", _query(slot, stranger), slot
            )
        )
        knocks.append(RefusedCaller("refuses_empty_token", f"slot {slot} with an empty token", _query(slot, ""), slot))
        knocks.append(
            RefusedCaller(
                "refuses_missing_token", f"slot {slot} without a token", {"slot": str(slot)}, slot, malformed=True
            )
        )
        if count > 1:
            other = (slot + 1) % count
            knocks.append(
                RefusedCaller(
                    "refuses_other_slots_token",
                    f"slot {slot} with the token of slot {other}",
                    _query(slot, tokens[other]),
                    slot,
                )
            )
    if count:
        knocks += [
            RefusedCaller("refuses_slot_out_of_range", f"slot {count}, which does not exist", _query(count, tokens[0])),
            # An index of -1 is the last slot in more than one language
            RefusedCaller("refuses_negative_slot", "slot -1 with the token of the last slot", _query(-1, tokens[-1])),
            RefusedCaller("refuses_missing_slot", "a token without a slot", {"token": tokens[0]}, malformed=True),
            RefusedCaller("refuses_slot_not_a_number", "slot 'first'", _query("first", tokens[0]), malformed=True),
        ]
    return knocks


def _query(slot: int | str, token: str) -> dict[str, str]:
    return {"slot": str(slot), "token": token}


async def try_seat(address: str, query: dict[str, str]) -> tuple[Answer, int | None]:
    """Try to take a seat; return the answer, and the HTTP status if there was one."""
    try:
        async with _connected(address, f"/player?{urlencode(query)}") as socket:
            try:
                with anyio.fail_after(_ANSWER_SECONDS):
                    await receive(socket)
            except TimeoutError:
                return "open", None
            except ConnectionClosed:
                return "closed", None
            return "spoke", None
    except InvalidStatus as error:
        status = error.response.status_code
        return ("refused" if status in (401, 403) else "status"), status
    except TimeoutError:
        return "silent", None
    except ConnectionRefusedError:
        return "gone", None
    except (WebSocketException, OSError, EOFError):
        return "dropped", None


def _connected(address: str, target: str) -> connect:
    return connect_to_game(address, target, open_timeout=_OPEN_SECONDS, close_timeout=0.5, ping_interval=None)


def _judge(asked: RefusedCaller, answer: Answer, status: int | None) -> Evidence:
    say = partial(required, asked.code, slot=asked.slot)
    letting_in = "Compare slot and token before the handshake, and refuse with 403 (or close with 1008)."
    match answer:
        case "refused":
            return say(ok=True, message=f"/player refuses {asked.who} with HTTP {status}.")
        case "closed":
            return say(ok=True, message=f"/player closes the connection of {asked.who}.")
        case "dropped":
            return say(ok=True, message=f"/player drops {asked.who} during the handshake.")
        case "status":
            return say(
                ok=False,
                level=MALFORMED_LEVEL if asked.malformed else "required",
                message=f"/player answers {asked.who} with HTTP {status}; it must be 401 or 403.",
                hint="Parse slot and token with care: either may be missing, and the slot may not be a number.",
            )
        case "open":
            return say(
                ok=False,
                message=f"/player lets {asked.who} in: it stays open for {_ANSWER_SECONDS:g} s.",
                hint=letting_in,
            )
        case "spoke":
            return say(ok=False, message=f"/player lets {asked.who} in and sends a message.", hint=letting_in)
        case "silent":
            return say(
                ok=False,
                level=MALFORMED_LEVEL if asked.malformed else "required",
                message=f"/player does not answer the handshake of {asked.who} within {_OPEN_SECONDS:g} s.",
                hint="Refuse at once, with 403: a caller that is left waiting holds a connection.",
            )
        case "gone":
            return say(ok=False, level="advice", message=f"Not checked: nothing listened for {asked.who}.")


class ContractProbes:
    """Hooks that `run_episode` calls during the smoke episode; the attributes hold the evidence afterwards."""

    def __init__(self) -> None:
        self.before: list[Evidence] = []
        """Evidence from before the players started, in a fixed order."""
        self.evidence: list[Evidence] = []
        """Evidence from during play."""
        self.seats: dict[int, SeatState] = {}
        """By slot: whether the seat could be taken again after its player had left with status 0."""
        self.tokens: tuple[str, ...] = ()
        self.pings = False
        """Whether a viewer's ping must be answered, as one published version requires."""

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """Request every page, and try every caller that must be refused."""
        self.tokens = tuple(tokens)
        gate = anyio.CapacityLimiter(_PARALLEL)
        found: dict[int, Evidence] = {}

        async def page(slot: int | None) -> None:
            query = "" if slot is None else contract_probes.seat_query(slot, tokens[slot])
            async with gate:
                _, result = await contract_probes.probe_page(
                    address, "global" if slot is None else "player", query, content=True
                )
            whose = "The viewers' page" if slot is None else f"Slot {slot}'s page"
            what = "/client/global" if slot is None else "/client/player for every slot"
            found[-1 if slot is None else slot] = required(
                "viewer_page" if slot is None else "slot_page",
                ok=result.ok,
                slot=slot,
                message=f"{whose}: {result.detail}.",
                hint=None if result.ok else f"Serve {what}, with HTTP 200 and the page's HTML.",
            )

        async def refusal(index: int, asked: RefusedCaller) -> None:
            async with gate:
                answer, status = await try_seat(address, asked.query)
            found[index] = _judge(asked, answer, status)

        async with anyio.create_task_group() as group:
            for slot in (None, *range(len(tokens))):
                group.start_soon(page, slot)
            for index, asked in enumerate(wrong_callers(tokens), start=len(tokens)):
                group.start_soon(refusal, index, asked)
        self.before = [found[index] for index in sorted(found)]

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Connect a late viewer, and try the seats of players that leave; cancelled when the game is over."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._viewers, address)
            for player in players:
                slot = player.spec.slot
                assert slot is not None
                group.start_soon(self._try_seat, address, slot, tokens[slot], player)

    async def _try_seat(self, address: str, slot: int, token: str, player: Unit) -> None:
        if not (await player.wait()).ok:
            return
        # A player that leaves just before the end has stayed; do not disturb the game's last moments for it
        await anyio.sleep(LEAVE_SECONDS)
        answer, _ = await try_seat(address, _query(slot, token))
        if answer in ("open", "spoke"):
            self.seats[slot] = "open"
        elif answer in ("refused", "closed"):
            self.seats[slot] = "closed"

    async def _viewers(self, address: str) -> None:
        try:
            async with _connected(address, "/global") as early:
                if not await self._served(early, "viewer", "A viewer", first=None):
                    return
                async with anyio.create_task_group() as group:
                    group.start_soon(drain, early)
                    await self._late_viewer(address, early)
                    if self.pings:
                        self.evidence += [row for row in (await answers_ping(early, "a viewer's ", "required"),) if row]
                    group.cancel_scope.cancel()
        except (WebSocketException, OSError, EOFError, TimeoutError):
            # The check that every episode makes reports a viewer that cannot connect at all
            return

    async def _late_viewer(self, address: str, early: ClientConnection) -> None:
        try:
            async with _connected(address, "/global") as late:
                await self._served(late, "late_viewer", "A late viewer", first=early)
        except (WebSocketException, OSError, EOFError, TimeoutError) as error:
            await anyio.sleep(_CONFIRM_SECONDS)
            # Blame the game only if it still serves the first viewer: otherwise it may just have ended its streams
            if early.state is State.OPEN:
                words = f"is not let in: {failure_text(error)}"
                self._viewer_evidence("late_viewer", "A late viewer", served=False, problem=words)

    async def _served(self, socket: ClientConnection, code: str, who: str, *, first: ClientConnection | None) -> bool:
        """Return whether a viewer gets a message in time, and record it as evidence unless it is too soon to tell.

        Args:
            socket: The viewer, connected.
            code: Code of the evidence.
            who: Name of the viewer, for messages.
            first: The viewer that connected earlier, if any.
        """
        since = anyio.current_time()
        over = anyio.get_cancelled_exc_class()
        try:
            with anyio.fail_after(_MESSAGE_SECONDS):
                message = await receive(socket)
        except TimeoutError:
            self._viewer_evidence(code, who, served=False, problem=f"got no message within {_MESSAGE_SECONDS:g} s")
            return False
        except ConnectionClosed:
            # If the game ended just then, the check of every episode has better evidence
            still = anyio.current_time() - since >= _CONFIRM_SECONDS if first is None else first.state is State.OPEN
            if still:
                self._viewer_evidence(code, who, served=False, problem="lost its connection without a message")
            return False
        except over:
            # The game is over; its last message may still be on the way
            waited = anyio.current_time() - since
            served = await _last_message(socket)
            if served or waited >= _CONFIRM_SECONDS:
                words = f"got no message in the {waited:.1f} s until the game was over"
                self._viewer_evidence(code, who, served=served, problem=words)
            raise
        words = "got an empty message" if message == 0 else ""
        self._viewer_evidence(code, who, served=message != 0, problem=words)
        return message != 0

    def _viewer_evidence(self, code: str, who: str, *, served: bool, problem: str) -> None:
        self.evidence.append(
            required(
                code,
                ok=served,
                message=f"{who} is sent a message." if served else f"{who} {problem}.",
                hint=None if served else "Send every viewer of /global what it needs to draw, when it connects.",
            )
        )


async def _last_message(socket: ClientConnection) -> bool:
    with anyio.move_on_after(_CONFIRM_SECONDS, shield=True):
        try:
            return await receive(socket) != 0
        except ConnectionClosed:
            return False
    return False


async def answers_ping(socket: ClientConnection, whose: str, level: Level) -> Evidence | None:
    """Send a ping on a connection that is being read; None if the game closes it before it answers."""
    try:
        pong = await socket.ping()
        with anyio.move_on_after(_PONG_SECONDS) as waiting:
            await pong
    except ConnectionClosed:
        return None
    answered = not waiting.cancelled_caught
    said = "answers" if answered else f"does not answer within {_PONG_SECONDS:g} s"
    return required(
        "answers_ping",
        ok=answered,
        level=level,
        message=f"The game {said} {whose}websocket ping.",
        hint=None if answered else "Answer Ping with Pong: otherwise clients with a keep-alive disconnect.",
    )


async def drain(socket: ClientConnection) -> None:
    """Read a connection until it is closed."""
    try:
        async for _ in socket:
            pass
    except ConnectionClosed:
        return
