"""The moves of a game of nim, and which of them gave a won game away: with a multiple of four left, one has lost."""

from dataclasses import dataclass

from coworld_core.roles import FinishedEpisode
from coworld_core.rules import read_replay


@dataclass(frozen=True)
class Move:
    """A move: what was left before it, and what was taken."""

    number: int
    seat: int
    left: int
    taken: int
    missed: bool
    """Whether its time ran out, so that one stick was taken."""

    @property
    def best(self) -> int:
        """What wins; 0 if nothing does against good play."""
        return self.left % 4

    @property
    def gave_away(self) -> bool:
        """Whether the game was won before it, and is not afterwards."""
        return self.best not in (0, self.taken)


def read_moves(episode: FinishedEpisode) -> list[Move]:
    """Read the moves of an episode from its replay.

    Raises:
        ValueError: The episode has failed, so there is nothing to judge.
    """
    if not episode.ok:
        raise ValueError(f"episode {episode.id} has failed: {episode.failure}")
    replay = read_replay(episode.replay)
    left, moves = replay.header.config["sticks"], list[Move]()
    for tick in replay.ticks:
        for seat, action in tick.actions.items():
            taken = action["take"] if action else 1
            moves.append(Move(tick.tick, seat, left, taken, missed=action is None))
            left -= taken
    return moves
