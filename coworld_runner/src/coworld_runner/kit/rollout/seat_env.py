"""One seat of a Coworld as a Gymnasium environment: the game and the other players are programs, the seat is yours."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import EnvironmentFault, EpisodeError, UsageError
from coworld_core.rules.plain_values import to_json
from coworld_core.rules.seat_wire import MAX_MESSAGE, PROTOCOL
from coworld_core.text.size_text import shown_size

from ...backend import Backend
from ...episode.backend_choice import open_backend
from ...episode.episode_options import EpisodeOptions
from ...episode.play_links import PlayLinks
from ...episode.single import run_episode
from ...package.plan import EpisodePlan, plan_episode
from ...package.player_names import HUMAN, SeatPlayer
from ...package.resolver import Package, resolve_package
from ...runs.scratch import make_scratch
from ._env_extra import env_missing
from .seat_spaces import Observe, SeatEncoding

try:
    import gymnasium
    from gymnasium import Space
except ModuleNotFoundError as error:
    raise env_missing(error) from error

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["SeatEnv"]

WATCH: Final = 0.2
"""Seconds between two checks whether the program is ending."""


class SeatEnv(gymnasium.Env[Any, Any]):
    """A seat of a Coworld: `reset` starts an episode, and `step` acts in it.

    The score comes as the reward at the end. Games made with the kit that tell rewards give them after each step.

    ::

        with SeatEnv("examples/nim", seat=0, opponents=["counter"], backend="process") as env:
            seen, info = env.reset(seed=1)
            seen, reward, over, _, info = env.step(env.action_space.sample(mask=seen["action_mask"]))

    Games made with the kit declare their actions and observations: the spaces and the mask are those of `as_aec_env`.
    They are known once an episode has begun; reading a space begins one. For any other game, all of `encode`, `decode`,
    `space` and `action_space` are required. The game's clock runs: a step that takes longer than a move may take counts
    as no move. A refused action changes nothing; `info["refused"]` has the reason, and it may be tried again while
    there is time.

    Episodes run in the background, in a thread of their own. `close`, the end of a `with` block or the end of the
    program stops everything.

    In games with talk, `say` speaks to other seats, and `info["heard"]` has what they have said since the last step, if
    they said anything: dictionaries with `tick`, `seat`, `text` and `to`.

    Args:
        package: The Coworld or its location, as for `run_episode`.
        seat: Which seat.
        opponents: The players of the other seats, one for all or one for each; by default the package's own players.
        variant: Id of a variant; by default the first.
        config: Changes to the game config, as for `plan_episode`.
        backend: The name of a backend (not an entered backend).
        options: How episodes are run.
        workspace: A directory in which each episode gets a directory for its evidence; None keeps nothing.
        actions: As for `as_aec_env`.
        observe: As for `as_aec_env`.
        space: The space of observations, with `observe` or `encode`.
        encode: Turns a message of the game (parsed, if it is JSON) into an element of `space`; None if the message asks
            for no action.
        decode: Turns an action into the message to the game: a string is sent as is, None is not sent, anything else is
            sent as JSON.
        action_space: The space of actions, with `decode`.
        render_mode: `ansi` for the observation in words, if the game provides them.

    Raises:
        UsageError: There is no such seat or player, or a game not made with the kit lacks one of the arguments above.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        package: Package | str | os.PathLike[str],
        seat: int = 0,
        opponents: str | Sequence[SeatPlayer] = (),
        *,
        variant: str | None = None,
        config: Mapping[str, Any] | None = None,
        backend: str = "auto",
        options: EpisodeOptions | None = None,
        workspace: str | os.PathLike[str] | None = None,
        actions: Sequence[Any] | int | None = None,
        observe: Observe | None = None,
        space: Space[Any] | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        action_space: Space[Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        own = (encode, decode, action_space)
        if any(given is not None for given in own) and any(given is None for given in (*own, space)):
            raise UsageError("encode=, decode=, space= and action_space= belong together.", code="no_space")
        self.render_mode = render_mode
        self.record: EpisodeRecord | None = None
        """The record of the last finished episode."""
        self._package = package
        self._seat = seat
        self._opponents: list[SeatPlayer] = [opponents] if isinstance(opponents, str) else list(opponents)
        self._variant = variant
        self._config = config
        self._backend = backend
        self._options = options or EpisodeOptions()
        self._workspace = workspace
        self._words: _KitWords | _OwnWords = (
            _OwnWords(encode, decode, space, action_space)
            if encode is not None and decode is not None and space is not None and action_space is not None
            else _KitWords(actions, observe, space)
        )
        self._home: _Home | None = None
        self._episode: _Episode | None = None
        self._fresh = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the episode, which cannot go on in a copy: a copy has to be reset."""
        return {**self.__dict__, "_home": None, "_episode": None, "_fresh": False}

    @property
    def action_space(self) -> Space[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The space of actions."""
        self._known()
        return self._words.action_space

    @property
    def observation_space(self) -> Space[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The space of observations."""
        self._known()
        return self._words.observation_space

    @property
    def time_left(self) -> float | None:
        """Seconds that were left for this action when the game asked for it; None if there is no (known) limit."""
        return self._words.time_left

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and wait until it is the seat's turn; an episode in progress is stopped.

        Without a seed, one is derived from the last seed if the game takes seeds.

        Raises:
            EpisodeError: The episode ended before the seat's turn.
        """
        super().reset(seed=seed)
        if not (self._fresh and seed is None):
            self._begin(int(self.np_random.integers(2**31)) if seed is None else seed)
        self._fresh = False
        return self._words.element(), dict(self._words.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and wait until it is the seat's turn again or the episode is over.

        Raises:
            EpisodeError: The episode did not end as it should; the message says whose fault that was.
        """
        episode = self._episode
        if episode is None:
            raise UsageError("There is no episode: reset first.", code="no_episode")
        said = self._words.act_message(action)
        if said is not None:
            episode.send(said)
        if self._listen(episode):
            return self._words.element(), self._words.gained() or 0.0, False, False, dict(self._words.info)
        record = self._finished(episode)
        info = {**self._words.info, "results": record.results}
        gained = self._words.gained()
        return self._words.element(), record.scores[self._seat] if gained is None else gained, True, False, info

    def say(self, text: str, to: str | int = "all") -> None:
        """Say something to other seats before the next step; if that may not be said, `info["say_refused"]` says why.

        Args:
            text: The words.
            to: `all`, `team`, or a seat, as far as the game allows it.

        Raises:
            UsageError: There is no episode, or its game has no talk.
        """
        if self._episode is None:
            raise UsageError("There is no episode: reset first.", code="no_episode")
        if not self._words.talks:
            raise UsageError("In this game seats do not talk.", code="no_talk")
        self._episode.send({"type": "say", "text": text, "to": to})

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The observation in words."""
        return self._words.info.get("text", "") if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode and everything in the background. The environment can be reset afterwards."""
        episode, self._episode, self._fresh = self._episode, None, False
        home, self._home = self._home, None
        if home is not None:
            home.close(episode)

    def _known(self) -> None:
        if not self._words.known:
            self._begin(0)
            self._fresh = True

    def _begin(self, seed: int) -> None:
        if self._episode is not None:
            self._episode.stop()
            self._episode = None
        if self._home is None:
            self._home = _Home(self._package, self._backend, self._workspace)
        try:
            plan = self._plan(self._home.package, seed)
        except BaseException:
            self.close()
            raise
        episode = self._episode = self._home.start(plan, self._seat, self._options)
        self._words.begin()
        if not self._listen(episode):
            self._finished(episode)
            raise EpisodeError(f"The episode was over before seat {self._seat} was to act.", code="no_turn")

    def _plan(self, package: Package, seed: int) -> EpisodePlan:
        common: dict[str, Any] = {"variant": self._variant, "config": self._config}
        found = plan_episode(package, humans=[self._seat], **common)
        others = len(found.seats) - 1
        named = self._opponents * others if len(self._opponents) == 1 else self._opponents
        if named and len(named) != others:
            raise UsageError(
                f"There are {others} other seats, and {len(named)} opponents.",
                code="wrong_seats",
                hint="Name one for all, or one for each.",
            )
        players: list[SeatPlayer] = [*named[: self._seat], HUMAN, *named[self._seat :]] if named else []
        humans = [] if named else [self._seat]
        try:
            return plan_episode(package, players=players, humans=humans, seed=seed, **common)
        except UsageError as error:
            if error.code != "seed_unknown":
                raise
            return plan_episode(package, players=players, humans=humans, **common)

    def _finished(self, episode: _Episode) -> EpisodeRecord:
        self.record, self._episode = episode.finished(), None
        try:
            return self.record.raise_for_fault()
        except EpisodeError as error:
            if self._workspace is None:
                error.add_note("No files of the episode are kept: give workspace= to keep its logs.")
            raise

    def _listen(self, episode: _Episode) -> bool:
        """Wait for the seat's turn. Returns False if the episode is over."""
        while (message := episode.receive()) is not None:
            if self._words.heard(message):
                return True
            if self._words.over:
                break
        return False


# --- messages -------------------------------------------------------------------------------------------------------


class _KitWords:
    """The messages of a game made with the kit."""

    def __init__(self, actions: Sequence[Any] | int | None, observe: Observe | None, space: Space[Any] | None) -> None:
        self._given = (actions, observe, space)
        self._hello: dict[str, Any] = {}
        self._asked: dict[str, Any] = {}
        self._encoding: SeatEncoding | None = None
        self._spaces: tuple[Space[Any], Space[Any]] | None = None
        self.info: dict[str, Any] = {}
        self.time_left: float | None = None
        self.over = False
        self._rewards: dict[int, float] = {}
        """The rewards since the last step, by tick."""
        self._talk: dict[str, Any] = {}
        """What was heard since the last step, and what may not be said, as in `info`."""
        self._heard_tick = -1

    @property
    def known(self) -> bool:
        return self._spaces is not None

    @property
    def action_space(self) -> Space[Any]:
        assert self._spaces is not None
        return self._spaces[0]

    @property
    def observation_space(self) -> Space[Any]:
        assert self._spaces is not None
        return self._spaces[1]

    def begin(self) -> None:
        self.over = False
        self.info = {}
        self._rewards, self._talk, self._heard_tick = {}, {}, -1

    @property
    def talks(self) -> bool:
        return self._hello.get("talk") is not None

    def gained(self) -> float | None:
        """The reward since the last step; None if the game tells none."""
        if not self._hello.get("tells_rewards"):
            return None
        gained, self._rewards = sum(self._rewards.values()), {}
        return gained

    def heard(self, message: Any) -> bool:
        """Handle a message. Returns whether it is the seat's turn."""
        said = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        match said.get("type"):
            case "hello" if said.get("protocol") == PROTOCOL:
                self._hello = said
            case _ if not self._hello:
                raise UsageError(
                    f"The game does not speak {PROTOCOL}.",
                    code="other_protocol",
                    hint="Give encode=, decode=, space= and action_space=.",
                )
            case "observe":
                self._asked = said
                self._listen(said)
                self.info = {name: said[name] for name in ("tick", "text") if name in said} | self._talk
                # Apart from `info`, which is the same for the same seed and actions.
                self.time_left = said.get("time_left")
                self._learn()
                return bool(said.get("your_turn"))
            case "say_refused":
                self._talk["say_refused"] = self.info["say_refused"] = said.get("reason")
            case "refused":
                self.info["refused"] = said.get("reason")
                # A late action belongs to a tick that is over, so it cannot be tried again.
                return said.get("tick") == self._asked.get("tick") and not str(said.get("reason")).startswith(
                    "too late"
                )
            case "over":
                self._asked = {**self._asked, "your_turn": False}
                self.over = True
            case _:
                pass
        return False

    def element(self) -> Any:
        assert self._encoding is not None
        seen = self._encoding.observation(self._asked["observation"])
        if not self._encoding.mask_observed:
            return seen
        legal: list[Any] | None = self._asked.get("legal") if self._asked.get("your_turn") else []
        return {"observation": seen, "action_mask": self._encoding.mask(legal)}

    def act_message(self, action: Any) -> Any:
        assert self._encoding is not None
        value = self._encoding.action(action, self._asked.get("legal"))
        self._talk = {}
        return {"type": "act", "tick": self._asked["tick"], "action": value}

    def _listen(self, message: Mapping[str, Any]) -> None:
        """Take in what an observation has besides what is seen; one that is sent again repeats that."""
        tick = message["tick"]
        if message.get("reward") is not None:
            self._rewards[tick] = message["reward"]
        if tick != self._heard_tick and message.get("heard"):
            self._talk["heard"] = [*self._talk.get("heard", ()), *message["heard"]]
        self._heard_tick = tick

    def _learn(self) -> None:
        if self._spaces is not None:
            return
        actions, observe, space = self._given
        name = str(self._hello.get("game"))
        self._encoding = SeatEncoding.of(
            self._hello["action_schema"],
            self._hello.get("observation_schema") or {},
            lambda: self._asked["observation"],
            name=name,
            actions=actions,
            observe=observe,
            space=space,
        )
        self._spaces = (self._encoding.actions.space, self._encoding.observation_space())


class _OwnWords:
    """The messages of a game with a protocol of its own, converted by the environment's author."""

    known = True
    over = False
    talks = False

    def __init__(
        self,
        encode: Callable[[Any], Any],
        decode: Callable[[Any], Any],
        space: Space[Any],
        action_space: Space[Any],
    ) -> None:
        self._encode = encode
        self._decode = decode
        self._seen: Any = None
        self.observation_space = space
        self.action_space = action_space
        self.info: dict[str, Any] = {}
        self.time_left: float | None = None

    def begin(self) -> None:
        self._seen = None

    def gained(self) -> float | None:
        return None

    def heard(self, message: Any) -> bool:
        seen = self._encode(message)
        if seen is None:
            return False
        self._seen = seen
        return True

    def element(self) -> Any:
        return self._seen

    def act_message(self, action: Any) -> Any:
        return self._decode(action)


# --- in the background ------------------------------------------------------------------------------------------------


class _Home:
    """An event loop in a thread of its own, with an open backend, until it is closed or the program ends."""

    def __init__(
        self, package: Package | str | os.PathLike[str], backend: str, workspace: str | os.PathLike[str] | None
    ) -> None:
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self._latest: _Episode | None = None
        with ExitStack() as stack:
            self._root = Path(workspace) if workspace else stack.enter_context(make_scratch()).directory("episodes")
            self._portal = stack.enter_context(start_blocking_portal(name="SeatEnv"))
            self.package = self._portal.call(resolve_package, package)
            opened = self._portal.wrap_async_context_manager(open_backend(backend, self.package))
            self._backend: Backend = stack.enter_context(opened)[0]
            self._stack = stack.pop_all()
        # A program waits for its threads before it calls the registered exit functions.
        self._watch = threading.Thread(target=self._until_the_end, name="SeatEnv watch")
        self._watch.start()
        atexit.register(self.close)

    def start(self, plan: EpisodePlan, seat: int, options: EpisodeOptions) -> _Episode:
        self._count += 1
        self._latest = _Episode(self._portal, plan, seat, self._backend, self._root / str(self._count), options)
        return self._latest

    def close(self, episode: _Episode | None = None) -> None:
        atexit.unregister(self.close)
        self._closed.set()
        if self._watch is not threading.current_thread():
            self._watch.join()
        with self._lock, self._stack.pop_all():
            if latest := episode or self._latest:
                latest.stop()

    def _until_the_end(self) -> None:
        while not self._closed.wait(WATCH):
            if not threading.main_thread().is_alive():
                self.close()


class _Episode:
    """One episode and the connection of its seat; every method waits for the event loop."""

    def __init__(
        self,
        portal: BlockingPortal,
        plan: EpisodePlan,
        seat: int,
        backend: Backend,
        workspace: Path,
        options: EpisodeOptions,
    ) -> None:
        self._portal = portal

        async def play(*, task_status: TaskStatus[str]) -> EpisodeRecord:
            def ready(links: PlayLinks) -> None:
                page = urlsplit(links.players[seat])
                task_status.started(page._replace(scheme="ws", path="/player").geturl())

            return await run_episode(plan, backend=backend, workspace=workspace, options=options, on_ready=ready)

        started: tuple[Future[EpisodeRecord], str]
        started = portal.start_task(play)
        self._record, url = started
        try:
            self._socket: ClientConnection = portal.call(_connected, url)
        except BaseException:
            self.stop()
            raise

    def receive(self) -> Any:
        """The next message, parsed if it is JSON; None when the connection is closed."""
        return self._portal.call(_received, self._socket)

    def send(self, message: Any) -> None:
        """Send a message; it is dropped if the game has closed the connection."""
        self._portal.call(_sent, self._socket, message if isinstance(message, str) else to_json(message))

    def finished(self) -> EpisodeRecord:
        """Leave the seat, and wait for the record."""
        self._portal.call(_left, self._socket)
        return self._record.result()

    def stop(self) -> None:
        """End the episode, whatever its state."""
        if not self._record.done():
            self._record.cancel()
        with suppress(CancelledError, Exception):
            self._record.result()


async def _connected(url: str) -> ClientConnection:
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    try:
        # As players do: games of older generations do not answer pings.
        return await connect(url, ping_timeout=None, max_size=MAX_MESSAGE, compression=None, proxy=None)
    except (WebSocketException, OSError, EOFError) as error:
        raise EnvironmentFault(
            f"The game refuses the seat's connection: {str(error) or type(error).__name__}.", code="seat_refused"
        ) from error


async def _received(socket: ClientConnection) -> Any:
    from websockets.exceptions import ConnectionClosed

    from ...web.game_socket import is_too_long

    try:
        message = await socket.recv()
    except ConnectionClosed as error:
        if is_too_long(error):
            raise EnvironmentFault(
                f"The game has sent the seat a message of more than {shown_size(MAX_MESSAGE)}.",
                code="message_too_long",
            ) from None
        return None
    try:
        return json.loads(message)
    except ValueError:
        return message


async def _sent(socket: ClientConnection, text: str) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed):
        await socket.send(text)


async def _left(socket: ClientConnection) -> None:
    with anyio.move_on_after(5):
        await socket.close()
