"""A game as a task of Inspect, in which the model that is evaluated has one seat."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Unpack

from coworld_core.rules import Rules
from coworld_core.rules.plain_values import to_json

from ..wrappers.libraries import imported
from .seat_in_words import SeatArguments, SeatInWords

__all__ = ["coworld_task"]

NEEDS: Final = "inspect-ai>=0.3.285,<0.4"

_RESULTS: Final = "coworld_results"


def coworld_task(
    rules: type[Rules] | str,
    *,
    episodes: int = 10,
    **seated: Unpack[SeatArguments],
) -> Any:
    """Make a task of Inspect from one seat of a game.

    ::

        # nim_task.py, which `inspect eval nim_task.py --model …` runs
        @task
        def nim():
            return coworld_task("nim.py:Nim", opponents="players/counter.py")

    A sample is a game, whose seed is its number. The solver plays the seat, and the scorer gives the seat's score in
    the results; the score's metadata has all results, and how many answers were refused. A model that is stopped by a
    limit misses the turns that are left.

    Args:
        rules: As for `SeatInWords`.
        episodes: Number of samples.
        seated: As for `SeatInWords`.

    Raises:
        UsageError: Inspect is not installed (`library_missing`); or as for `SeatInWords`.
    """
    inspect: Any = imported("inspect_ai", NEEDS)
    dataset, model, scorer, solver = (
        imported(f"inspect_ai.{part}", NEEDS) for part in ("dataset", "model", "scorer", "solver")
    )

    sit = partial(SeatInWords, rules, **seated)

    @solver.solver(name="coworld_seat")
    def coworld_seat() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            with sit() as played:
                played.begin(state.metadata["seed"])
                state.messages = [model.ChatMessageSystem(content=played.instructions)]
                try:
                    while not played.over:
                        state.messages.append(model.ChatMessageUser(content=played.question))
                        state = await generate(state)
                        played.answer(state.output.completion)
                finally:
                    # A limit ends the solver with an error, after which the sample is scored
                    played.leave()
                    state.store.set(_RESULTS, {**(played.results or {}), "refused": played.refused})
            return state

        return solve

    @scorer.scorer(metrics=[scorer.mean(), scorer.stderr()], name="coworld_score")
    def coworld_score() -> Any:
        async def score(state: Any, target: Any) -> Any:
            results = state.store.get(_RESULTS)
            return scorer.Score(value=results["scores"][seat], explanation=to_json(results), metadata=results)

        return score

    with sit() as known:
        name, about, seat = known.rules.__name__, known.instructions, known.seat
    samples = [
        dataset.Sample(input=f"{name}, seed {seed}", id=seed, metadata={"seed": seed}) for seed in range(episodes)
    ]
    return inspect.Task(
        dataset=dataset.MemoryDataset(samples, name=name),
        solver=coworld_seat(),
        scorer=coworld_score(),
        name=f"coworld_{name}",
        description=about,
    )
