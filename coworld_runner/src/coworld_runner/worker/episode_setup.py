"""`init-config`: writes tokens and config before the game starts; `run` reads them back."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from coworld_core.episode.request import load_request
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text.urls import shown_url

from ..package.plan import EpisodePlan, plan_episode
from ..package.resolver import MANIFEST_LIMIT, Package
from ..package.transfers import Transfers, read_document
from ..runs.workspace import atomic_write

__all__ = ["STATE", "init_config", "read_plan", "read_tokens"]

_log = logging.getLogger("coworld.worker")

STATE = "state.json"
"""The file that `init-config` leaves for `run`."""


async def init_config(environ: Mapping[str, str]) -> None:
    """Read the job spec, make a token for each slot, and write the game's config.

    Tokens of an earlier attempt in the same pod are reused, because the game may have started with them.

    Args:
        environ: The environment: `JOB_SPEC_URI`, `COGAME_CONFIG_URI`, `COWORLD_WORKDIR`.

    Raises:
        UsageError: A variable or a document is missing.
        ManifestError: The job spec, or the config in it, has errors.
        RemoteError: The job spec cannot be fetched.
        TransferError: The config cannot be uploaded.
    """
    missing = [name for name in ("JOB_SPEC_URI", "COGAME_CONFIG_URI") if not environ.get(name)]
    if missing:
        raise UsageError(
            f"init-config needs {' and '.join(missing)} in its environment.",
            code="environment_incomplete",
            hint=Hint("make_job", "make_worker_job makes a whole Job; docs/worker.md lists the variables."),
            context={"missing": missing},
        )
    state = Path(environ.get("COWORLD_STATE_DIR") or environ.get("COWORLD_WORKDIR") or "/coworld") / STATE
    plan = await read_plan(environ["JOB_SPEC_URI"])
    try:
        tokens = read_tokens(state, len(plan.seats))
    except UsageError:
        tokens = plan.new_tokens()
    config = json.dumps(plan.config_with_tokens(tokens), indent=2) + "\n"
    async with Transfers() as transfers:
        await transfers.put(
            environ["COGAME_CONFIG_URI"], config.encode(), content_type="application/json", what="game config"
        )
    # Last: `run` takes it as the sign that preparation is complete
    await anyio.to_thread.run_sync(_write_state, state, tokens)
    _log.info("config of %s for %d players written", plan.manifest.game.name, len(plan.seats))


async def read_plan(spec_uri: str) -> EpisodePlan:
    """Read the plan of a job spec.

    Raises:
        ManifestError: The job spec has errors.
        UsageError: The job spec does not exist.
        RemoteError: The job spec cannot be fetched.
    """
    data = await read_document(spec_uri, what="job spec", limit=MANIFEST_LIMIT)
    loaded = await anyio.to_thread.run_sync(load_request, data)
    where = "data:" if spec_uri[:5].lower() == "data:" else shown_url(spec_uri)
    report = loaded.report.model_copy(update={"source": where})
    package = Package(manifest=loaded.request.manifest, report=report, fetched=True)
    return plan_episode(package, request=loaded)


def read_tokens(state: Path, slots: int) -> tuple[str, ...]:
    """Read the tokens that `init-config` made.

    Raises:
        UsageError: `state_missing` or `state_invalid`.
    """
    try:
        text = state.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"There is no {state}, which init-config leaves behind: {error.strerror}.",
            code="state_missing",
            hint="Run `coworld-worker init-config` as an init container, with the same volume.",
        ) from error
    try:
        found: object = json.loads(text)["tokens"]
        tokens = cast("list[Any]", found if isinstance(found, list) else [])
        usable = all(isinstance(token, str) and token for token in tokens) and len(tokens) == slots
    except (ValueError, KeyError, TypeError):
        tokens, usable = [], False
    if not usable:
        raise UsageError(f"{state} does not hold one token for each of {slots} slots.", code="state_invalid")
    return tuple(tokens)


def _write_state(state: Path, tokens: tuple[str, ...]) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(state, (json.dumps({"tokens": list(tokens)}) + "\n").encode())
