"""A game as an environment of OpenEnv: a server, in which each session has one seat, and its client."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Unpack

from pydantic import Field, WithJsonSchema, create_model

from coworld_core.rules import Rules

from ..wrappers.libraries import imported
from .seat_in_words import SeatArguments, SeatInWords

__all__ = ["OpenEnvGame", "as_openenv"]

NEEDS: Final = "openenv-core>=0.3,<0.4"

MOST_SESSIONS: Final = 64


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

    Args:
        rules: As for `SeatInWords`.
        seated: As for `SeatInWords`.

    Raises:
        UsageError: OpenEnv is not installed (`library_missing`); or as for `SeatInWords`.
    """
    core: Any = imported("openenv.core", NEEDS)

    sit = partial(SeatInWords, rules, **seated)
    with sit() as known:
        played, about = known.rules, known.instructions
        # What the schema refers to is looked up in the schema of the whole action
        schema = {name: value for name, value in known.action_schema.items() if name != "$defs"}
        defined = {"$defs": known.action_schema["$defs"]} if "$defs" in known.action_schema else {}
    action: Any = create_model(
        f"{played.__name__}Action",
        __base__=type("GameAction", (core.Action,), {"model_config": {"json_schema_extra": defined}}),
        action=(Annotated[Any, WithJsonSchema(schema)], Field(description="An action, or an answer in words.")),
    )
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

    class GameEnvironment(core.Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._seat = sit()
            self._episode: str | None = None
            self._steps = 0

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self._seat.begin(seed)
            self._episode, self._steps = episode_id or str(uuid.uuid4()), 0
            return self._seen(None)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            said = action.action
            gained = self._seat.answer(said) if isinstance(said, str) else self._seat.act(said)
            self._steps += 1
            return self._seen(gained)

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
