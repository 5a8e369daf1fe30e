"""One store of episodes, on this machine or on a platform: what was played is found, waited for, read, and deleted.

The runner has one over the runs on this machine (`coworld_runner.LocalStore`), the client one over a platform
(`coworld_client.HostedStore`). A program that is written for `EpisodeStore` works with both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from ..errors import NotReadyError, UsageError
from ..rules.rules_errors import ReplayFormatError
from .labels import matches_labels, matches_pattern
from .run_entries import SeatEntry, StoredEpisode, StoredEpisodes
from .run_filter import RunFilter
from .samples import RecordedSample
from .turn_rows import replay_samples

__all__ = ["EpisodeStore", "fits_episode", "samples_of", "too_few", "with_labels"]


@runtime_checkable
class EpisodeStore(Protocol):
    """Episodes that are over."""

    async def episodes(
        self,
        asked: RunFilter | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> StoredEpisodes:
        """Return episodes, the newest first.

        Args:
            asked: What is asked for; None: all.
            labels: Patterns for labels, besides those in `asked`.
            limit: How many at most.

        Raises:
            UsageError: The store cannot tell what is asked for (`cannot_filter`), or keeps no labels (`no_labels`).
        """
        ...

    async def wait_for(
        self,
        count: int,
        asked: RunFilter | None = None,
        *,
        timeout: float,
        labels: Mapping[str, str] | None = None,
    ) -> StoredEpisodes:
        """Wait until there are so many episodes, and return the newest ones.

        Args:
            count: How many.
            asked: What is asked for; None: all.
            timeout: Seconds to wait.
            labels: Patterns for labels, besides those in `asked`.

        Raises:
            NotReadyError: There are fewer in that time (`too_few_episodes`); `context["count"]` says how many.
        """
        ...

    def iter_samples(self, episode: StoredEpisode | str) -> AsyncIterator[RecordedSample]:
        """Iterate over the turns of an episode, or of its `id`: as recorded, or else as its replay tells them.

        Raises:
            UsageError: There are none: no replay was kept, or it is not of a game of the kit (`no_samples`); the
                recording is damaged (`recording_invalid`); or there is no such episode.
            ReplayFormatError: The replay is damaged; the turns before that have been given by then.
        """
        ...

    async def delete(self, episode: StoredEpisode | str) -> None:
        """Delete an episode, or the one with an `id`, with all that is kept of it.

        Raises:
            UsageError: It is a part of a run, which is deleted as a whole (`part_of_a_run`); the store deletes no
                episodes (`cannot_delete`); or there is no such episode.
        """
        ...


def with_labels(asked: RunFilter | None, labels: Mapping[str, str] | None) -> RunFilter:
    """What is asked for, and patterns for labels besides."""
    asked = asked or RunFilter()
    return replace(asked, labels={**asked.labels, **labels}) if labels else asked


def fits_episode(episode: StoredEpisode, asked: RunFilter) -> bool:
    """Whether an episode is what is asked for, except for `kind` and `status`, which are of its run."""
    begun = episode.started_at
    fault = [word for word in (episode.error_type, episode.party) if word]
    return (
        all(
            not pattern or matches_pattern(text, pattern)
            for text, pattern in ((episode.coworld, asked.game), (episode.variant, asked.variant))
        )
        and matches_labels(episode.labels, asked.labels)
        and (not asked.fault or any(matches_pattern(word, asked.fault) for word in fault))
        and (asked.since is None or (begun is not None and begun >= asked.since))
        and (asked.until is None or (begun is not None and begun < asked.until))
        and (not _asks_for_seat(asked) or any(_fits_seat(seat, asked) for seat in episode.seats))
    )


def samples_of(replay: bytes, *, episode: str) -> Iterator[RecordedSample]:
    """The turns in a replay.

    Args:
        replay: The replay, compressed or not.
        episode: The episode's id, for messages.

    Raises:
        UsageError: Code `no_samples`: it is not the replay of a game of the kit.
        ReplayFormatError: It is damaged; the turns before that have been given by then.
    """
    given = False
    try:
        for row in replay_samples(replay, episode=episode, source=f"The replay of {episode}"):
            given = True
            yield row
    except ReplayFormatError as error:
        if given or error.code != "replay_invalid":
            raise
        raise UsageError(
            f"The episode {episode} has no samples: its replay is not that of a game of the kit.",
            code="no_samples",
            hint="What other games write in a replay is their own.",
            context={"episode": episode},
        ) from error


def too_few(count: int, wanted: int, timeout: float) -> NotReadyError:
    """The error of a wait for episodes."""
    return NotReadyError(
        f"There are {count} of {wanted} episodes after {timeout:g} s.",
        code="too_few_episodes",
        hint="See what goes on, or wait for longer.",
        context={"count": count, "wanted": wanted},
    )


def _asks_for_seat(asked: RunFilter) -> bool:
    return bool(asked.player or asked.digest) or asked.min_score is not None or asked.max_score is not None


def _fits_seat(seat: SeatEntry, asked: RunFilter) -> bool:
    named = (seat.name, seat.player_id or "", seat.image)
    return (
        (not asked.player or any(matches_pattern(text, asked.player) for text in named))
        and seat.digest.removeprefix("sha256:").startswith(asked.digest.removeprefix("sha256:"))
        and (asked.min_score is None or (seat.score is not None and seat.score >= asked.min_score))
        and (asked.max_score is None or (seat.score is not None and seat.score <= asked.max_score))
    )
