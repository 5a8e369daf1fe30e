"""A runner to be killed: does through the library what a command does. Arguments are one JSON object.

With `kill_at`, fields of an event, it kills itself as soon as there is one with these.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
from support.arena import make_backend
from support.misfit_kit import misfit_plan, with_seats

from coworld_runner.build.manifest_build import build_coworld
from coworld_runner.certification.certifier import certify
from coworld_runner.episode.single import EpisodeOptions, run_episode
from coworld_runner.package.plan import Seat, plan_for_people
from coworld_runner.replay.replay_session import open_replay_mode


async def main(orders: dict[str, Any]) -> None:
    workspace, kill_at, what = Path(orders["workspace"]), orders.get("kill_at"), orders.get("what", "episode")

    def listen(event: Any) -> None:
        if kill_at and all(value in str(getattr(event, name, "")) for name, value in kill_at.items()):
            os.kill(os.getpid(), signal.SIGKILL)

    if what == "build":
        print(await build_coworld(workspace, publish=listen))
        return
    plan = misfit_plan("well", *orders["players"], image=orders["image"], mark=orders["mark"], **orders["config"])
    async with make_backend(orders["backend"]) as backend:
        units = backend.units

        def told(specs: Any, **more: Any) -> Any:
            # A command may have several runs, and not all of them are told of
            with workspace.with_suffix(".runs").open("a") as runs:
                runs.writelines(f"{spec.run_id}\n" for spec in specs)
            return units(specs, **more)

        backend.units = told  # type: ignore[method-assign]
        if what == "certify":
            listeners = (listen,)
            print(
                await certify(
                    orders["package"],
                    backend=backend,
                    workspace=workspace,
                    listeners=listeners,
                    episode_listeners=listeners,
                )
            )
        elif what == "replay":
            replay = workspace.with_suffix(".replay")
            replay.write_text("the end\n")
            async with open_replay_mode(plan.manifest, replay, backend=backend, publish=listen) as session:
                print(session.link)
        else:
            if what == "play":
                person = Seat(name="a person", runnable=None)
                plan = plan_for_people(with_seats(plan, [person for _ in plan.seats]))
            record = await run_episode(
                plan,
                backend=backend,
                workspace=workspace,
                options=EpisodeOptions(timeout_seconds=900),
                run_id=orders["run_id"],
                listeners=(listen,),
            )
            print(record)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
