"""The way to language models beside an episode: a program that has the keys, counts, and keeps what was said."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.model_use import ModelUse
from coworld_core.errors import UsageError
from coworld_core.loopback import is_loopback
from coworld_core.text.phrases import plural

from ..backend import Backend, Limits, Port
from ..runs.scratch import Scratch
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_options import EpisodeOptions
from .helper_units import helper_spec, open_helper, require_helper

__all__ = ["MODELS", "VARIABLES", "ModelPlace", "open_models", "require_models"]

MODELS = "models"
"""Name of the unit."""
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENROUTER_API_KEY")
"""Variables with keys and addresses of providers, which a program with a way to models does not get."""
_GAME = "game"
_RECORDING = "recording.ndjson"
_LIMITS = Limits(memory_bytes=1 << 30, pids=2048, disk_bytes=16 << 20, disk_entries=100, log_bytes=64 << 20)
_RECORDED_BYTES = 4 << 30
_MOST_WARNINGS = 5


def require_models(backend: Backend, options: EpisodeOptions) -> None:
    """Check that programs can be given a way to models; starts nothing.

    Raises:
        CapabilityError: The backend can run no program beside an episode.
        UsageError: A provider has an address that leads to this machine only from this machine.
    """
    if (access := options.models) is None:
        return
    require_helper(backend, "gives programs no way to models", "models")
    if not backend.capabilities.images or access.replay is not None:
        return
    for provider in access.providers.values():
        if is_loopback(host := urlsplit(provider.address).hostname or "", subdomains=True):
            raise UsageError(
                f"{provider.address} is this machine itself, and in a container {host} is the container.",
                code="provider_unreachable",
                hint="Name this machine by an address that containers reach, and let the server listen there; or play "
                "local processes.",
            )


@dataclass(frozen=True)
class ModelPlace:
    """Where the programs of an episode find models."""

    address: str
    """`host:port`, as they see it."""
    model: str
    """The usual model; empty: none."""
    tokens: Mapping[str, str] = field(repr=False)
    """By `game` or a seat's number."""

    @property
    def host(self) -> str:
        """The host of the address."""
        return urlsplit(f"//{self.address}").hostname or ""

    def variables(self, slot: int | None = None) -> dict[str, str]:
        """The variables of a seat's program; None: the game's."""
        place = f"http://{self.address}/{self.tokens[_GAME if slot is None else str(slot)]}"
        return {
            "OPENAI_BASE_URL": f"{place}/v1",
            "ANTHROPIC_BASE_URL": place,
            # Clients refuse to start without one
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_API_KEY": "none",
            "COWORLD_LLM_ENABLED": "true",
            "COWORLD_LLM_ENDPOINT": place,
            **({"COWORLD_LLM_MODEL": self.model} if self.model else {}),
        }


@asynccontextmanager
async def open_models(setup: Setup, ledger: Ledger, scratch: Scratch) -> AsyncGenerator[ModelPlace | None]:
    """Give the episode's programs their way to models, and note at the end what they used; None if they have none.

    Raises:
        EnvironmentFault: The program for it could not be started.
    """
    access = setup.options.models
    if access is None:
        yield None
        return
    from ..web.proxies.models_server import MODELS_PORT

    seats = len(setup.plan.seats)
    tokens = {who: secrets.token_urlsafe(24) for who in (_GAME, *map(str, range(seats)))}
    settings = {
        "tokens": {token: who for who, token in tokens.items()},
        "seats": seats,
        "models": access.names,
        "providers": {dialect: (provider.address, provider.key) for dialect, provider in access.providers.items()},
        "prices": dict(access.prices),
        "seat": access.seat.limits(),
        "episode": access.episode.limits(),
        "record": access.record,
    }
    recording = None if access.replay is None else EpisodeLayout(Path(access.replay)).models
    contained = setup.backend.capabilities.images
    spec = helper_spec(
        setup,
        scratch,
        name=MODELS,
        package="web/proxies",
        module="models_server",
        files={} if recording is None else {_RECORDING: recording},
        environment=lambda placement, inputs: {
            "COWORLD_MODELS_HOST": "" if contained else placement.listen_host,
            "COWORLD_MODELS_PORT": str(placement.listen["http"]),
            **({} if recording is None else {"COWORLD_MODELS_RECORDING": f"{inputs}/{_RECORDING}"}),
        },
        limits=replace(_LIMITS, log_bytes=_RECORDED_BYTES if access.record else _LIMITS.log_bytes),
        secret_env={"COWORLD_MODELS_SETTINGS": json.dumps(settings)},
        ports=(Port(name="http", number=MODELS_PORT),),
        stdout=setup.layout.models,
        stderr=setup.layout.logs / f"{MODELS}.log",
    )
    async with open_helper(setup, ledger, spec, what="the way to models") as unit:
        try:
            yield ModelPlace(unit.endpoint().there, next(iter(access.names), ""), tokens)
        finally:
            with anyio.CancelScope(shield=True):
                if unit.exit is not None:
                    ledger.warn(f"The way to models ended before the episode did: it {unit.exit}.")
                await unit.stop(0)
                used, problems = await anyio.to_thread.run_sync(_read_calls, setup.layout.models)
                ledger.game.model_use = used.get(_GAME)
                for slot, seat in ledger.seats.items():
                    seat.model_use = used.get(str(slot))
                if unit.log_truncated:
                    ledger.warn("There was no room for all calls of models: models.ndjson is not complete.")
                for problem, count in list(problems.items())[:_MOST_WARNINGS]:
                    ledger.warn(f"{plural(count, 'call')} of a model failed: {problem}.")


def _read_calls(path: Path) -> tuple[dict[str, ModelUse], dict[str, int]]:
    """What each spender used, and how often what went wrong, by its words."""
    used: dict[str, ModelUse] = {}
    problems: dict[str, int] = {}
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text)
                    spender, use, problem = str(line["spender"]), _use(line), line.get("refused") or line.get("problem")
                except (ValueError, LookupError, TypeError, RecursionError):
                    continue  # What Python itself has said
                used[spender] = used.get(spender, ModelUse()).plus(use)
                if problem:
                    problems[problem] = problems.get(problem, 0) + 1
    except OSError:
        pass
    return used, problems


def _use(line: Mapping[str, Any]) -> ModelUse:
    if "refused" in line:
        return ModelUse()
    tokens = {name: int(line[name]) for name in ("prompt_tokens", "completion_tokens")}
    unknown = "uncounted" if line["estimated"] else "no_price" if line["cost"] is None else ""
    return ModelUse(
        model=line["model"],
        calls=1,
        **tokens,
        uncounted=int(line["estimated"]),
        unanswered=int("status" not in line),
        cost=None if unknown else line["cost"],
        unknown=unknown,
    )
