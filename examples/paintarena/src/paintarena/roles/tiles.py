"""Who owns how much of the board at the end, from the results and the replay of an episode."""

from dataclasses import dataclass

from coworld_core.roles import FinishedEpisode


@dataclass(frozen=True)
class Tiles:
    """The tiles of each slot at the end of an episode, and the board's size."""

    painted: tuple[int, ...]
    width: int
    height: int

    @property
    def total(self) -> int:
        """The number of tiles on the board."""
        return self.width * self.height

    @property
    def tie(self) -> bool:
        """Whether the most tiles belong to more than one slot."""
        most = max(self.painted, default=0)
        return most > 0 and self.painted.count(most) > 1

    @property
    def winner(self) -> int | None:
        """The slot with the most tiles; None for a tie, and if nothing was painted."""
        most = max(self.painted, default=0)
        return self.painted.index(most) if most > 0 and not self.tie else None

    @property
    def margin(self) -> int:
        """How many tiles the first has more than the second."""
        first, second = (*sorted(self.painted, reverse=True), 0, 0)[:2]
        return first - second


def read_tiles(episode: FinishedEpisode) -> Tiles:
    """Count the tiles of an episode that counts.

    Raises:
        ValueError: The episode has failed, so there is nothing to count.
    """
    if not episode.ok:
        raise ValueError(f"episode {episode.id} has failed: {episode.failure}")
    config = episode.replay_json()["config"]
    painted = tuple(int(count) for count in episode.results["painted_tiles"])
    return Tiles(painted=painted, width=int(config["width"]), height=int(config["height"]))
