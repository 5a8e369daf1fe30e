"""A game as an environment of OpenEnv: a server, in which each session has one seat, and its client."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Unpack, cast

from pydantic import ConfigDict, Field, WithJsonSchema, create_model, model_validator

from coworld_core.rules import Rules
from coworld_core.rules.rules_schemas import rules_text

from ..wrappers.libraries import imported
from .seat_in_words import SeatArguments, SeatInWords

__all__ = ["OpenEnvGame", "as_openenv"]

NEEDS: Final = "openenv-core>=0.3,<0.4"

MOST_SESSIONS: Final = 64

_OBSERVE: Final = "See what your seat sees, and what is legal. The game, in the words of its author:\n\n"


@dataclass(frozen=True, kw_only=True)
class OpenEnvGame:
    """What `as_openenv` makes.

    Attributes:
        environment: The class of the environment, an `Environment` of OpenEnv; each session has an instance.
        action: The class of actions, with the field `action`: an action as JSON, or a model's answer in words.
        observation: The class of observations. Its fields are `question`, which says in words all that is needed for an
            answer, and by themselves `observation`, `text`, `legal`, `refused` (why the last action was refused; empty
            if it was not), and the `scores` of all seats, once the game is over.
        client: The class of clients, an `EnvClient` of OpenEnv.
    """

    environment: Any
    action: Any
    observation: Any
    client: Any

    def app(self, *, sessions: int = MOST_SESSIONS) -> Any:
        """Make the server, an application of FastAPI: `uvicorn FILE:app` runs it.

        Args:
            sessions: How many clients may play at a time, each its own games.
        """
        core: Any = imported("openenv.core", NEEDS)
        return core.create_app(self.environment, self.action, self.observation, max_concurrent_envs=sessions)


def as_openenv(
    rules: type[Rules] | str,
    **seated: Unpack[SeatArguments],
) -> OpenEnvGame:
    """Make a server and a client of OpenEnv from one seat of a game.

    ::

        nim = as_openenv(Nim, opponents="players/counter.py")
        app = nim.app()  # and elsewhere:
        with nim.client(base_url="http://127.0.0.1:8000").sync() as env:
            result = env.reset(seed=1)
            result = env.step(nim.action(action={"take": 1}))

    The rewards are those of the rules; if they give none, the changes of the scores. A refused action changes nothing,
    and after `tries` of them the seat misses its turn. The state has `step_count`, and once a game is over its
    `results`, its `seed` and how many actions were `refused`.

    In OpenEnv's MCP mode the same server has the tools `observe` and `act(action)`: by `step`, with rewards, for its
    `MCPToolClient`, and at `/mcp`, where a session's game begins with its first call.

    Args:
        rules: As for `SeatInWords`.
        seated: As for `SeatInWords`.

    Raises:
        UsageError: OpenEnv is not installed (`library_missing`); or as for `SeatInWords`.
    """
    core: Any = imported("openenv.core", NEEDS)

    sit = partial(SeatInWords, rules, **seated)
    with sit() as known:
        played, about, rules_told = known.rules, known.instructions, rules_text(known.rules)
        # What the schema refers to is looked up in the schema of the whole action, or of the tool's arguments
        schema = {name: value for name, value in known.action_schema.items() if name != "$defs"}
        defined = {"$defs": known.action_schema["$defs"]} if "$defs" in known.action_schema else {}
    calls = {"list_tools": core.ListToolsAction, "call_tool": core.CallToolAction}

    class GameAction(core.Action):
        model_config = ConfigDict(json_schema_extra=defined)

        @model_validator(mode="wrap")
        @classmethod
        def _or_call(cls, value: Any, read: Any) -> Any:
            # The server knows calls of tools only where an environment has no actions of its own
            named: Any = cast("dict[str, Any]", value).get("type") if isinstance(value, dict) else None
            call = calls.get(named) if isinstance(named, str) else None
            return read(value) if call is None else call.model_validate(value)

    action: Any = create_model(
        f"{played.__name__}Action",
        __base__=GameAction,
        action=(Annotated[Any, WithJsonSchema(schema)], Field(description="An action, or an answer in words.")),
    )
    arguments = {"type": "object", "properties": {"action": schema}, "required": ["action"], **defined}
    observation: Any = create_model(
        f"{played.__name__}Observation",
        __base__=core.Observation,
        question=(str, ""),
        observation=(Any, None),
        text=(str | None, None),
        legal=(list[Any] | None, None),
        refused=(str, ""),
        scores=(list[float] | None, None),
    )

    class GameEnvironment(core.MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            fastmcp: Any = imported("fastmcp", NEEDS)
            tools, tool = fastmcp.FastMCP(played.__name__), imported("fastmcp.tools", NEEDS).Tool.from_function
            tools.add_tool(tool(self._observe, name="observe", description=_OBSERVE + rules_told))
            tools.add_tool(tool(self._act, name="act").model_copy(update={"parameters": arguments}))
            super().__init__(tools)
            self._seat = sit()
            self._episode: str | None = None
            self._steps = 0
            self._gained: float | None = None
            # A host may call several tools at a time, each of which has a thread
            self._one = threading.RLock()

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            with self._one:
                self._seat.begin(seed)
                self._episode, self._steps = episode_id or str(uuid.uuid4()), 0
                return self._seen(None)

        def _step_impl(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            return self._answer(action.action)

        def step(self, action: Any, timeout_s: float | None = None, **more: Any) -> Any:
            return self._rewarded(super().step(action, timeout_s, **more))

        async def step_async(self, action: Any, timeout_s: float | None = None, **more: Any) -> Any:
            return self._rewarded(await super().step_async(action, timeout_s, **more))

        def _answer(self, said: Any) -> Any:
            with self._one:
                gained = self._seat.answer(said) if isinstance(said, str) else self._seat.act(said)
                self._steps += 1
                self._gained = gained
                return self._seen(gained)

        def _rewarded(self, seen: Any) -> Any:
            """What a call of a tool has brought, which the tool's result does not tell."""
            if isinstance(seen, core.CallToolObservation):
                seen.reward, seen.done = self._gained, self._episode is not None and self._seat.over
            self._gained = None
            return seen

        def _observe(self) -> dict[str, Any]:
            with self._one:
                self._begun()
                return self._told(self._seen(None))

        def _act(self, action: Any) -> dict[str, Any]:
            """Act, and see what your seat sees next, or why the action is refused; then try again."""
            with self._one:
                self._begun()
                return self._told(self._answer(action))

        def _begun(self) -> None:
            # Hosts of agents have nothing but the tools
            if self._episode is None:
                self.reset()

        def _told(self, seen: Any) -> dict[str, Any]:
            told: dict[str, Any] = seen.model_dump(mode="json", exclude={"metadata", "reward"})
            return told

        @property
        def state(self) -> Any:
            told, ended = self._seat, {}
            if (results := told.results) is not None:
                ended = {"results": results, "seed": told.seed, "refused": told.refused}
            return core.State(episode_id=self._episode, step_count=self._steps, **ended)

        def get_metadata(self) -> Any:
            return core.env_server.types.EnvironmentMetadata(
                name=played.__name__, description=about, version=played.version
            )

        def close(self) -> None:
            super().close()
            self._seat.close()

        def _seen(self, gained: float | None) -> Any:
            now, over = self._seat.asked, self._seat.over
            return observation(
                done=over,
                reward=gained,
                question="" if over else self._seat.question,
                observation=now["observation"],
                text=now["text"],
                legal=now["legal"],
                refused=now.get("refused", ""),
                scores=self._seat.scores if over else None,
            )

    class GameClient(core.EnvClient):
        def _step_payload(self, action: Any) -> dict[str, Any]:
            return action.model_dump()

        def _parse_result(self, payload: dict[str, Any]) -> Any:
            told = {"done": bool(payload.get("done")), "reward": payload.get("reward")}
            seen = observation.model_validate({**payload["observation"], **told})
            return imported("openenv.core.client_types", NEEDS).StepResult(observation=seen, **told)

        def _parse_state(self, payload: dict[str, Any]) -> Any:
            return core.State.model_validate(payload)

    return OpenEnvGame(environment=GameEnvironment, action=action, observation=observation, client=GameClient)
