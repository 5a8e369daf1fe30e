"""A finished episode as a supporting role sees it: its results, replay, logs, and who sat where."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from ..documents.json_text import parse_json
from ..errors import CoworldError
from .bundle import BundleItem, BundleMetadata, BundlePlan, plan_bundle
from .bundle_file import Bundle, BundleFile, Pieces

__all__ = ["FinishedEpisode"]


class EvidenceError(CoworldError):
    """A file of a finished episode is not what its kind says."""

    kind = "answer"
    default_code = "evidence_unreadable"


@dataclass(frozen=True, kw_only=True)
class FinishedEpisode:
    """A finished episode. Its files are read when they are asked for."""

    id: str
    """`ereq_<uuid>`, or the run id of a local episode."""
    status: str = "success"
    """`success` or `failed`."""
    parts: Mapping[tuple[str, str | None], Callable[[], bytes]] = field(repr=False)
    """Reads each file, by the part of a bundle that it is and its key."""

    @classmethod
    def of(cls, bundle: Bundle) -> FinishedEpisode:
        """The episode of a bundle."""

        def reader(file: BundleFile) -> Callable[[], bytes]:
            return lambda: b"".join(bundle.pieces(file))

        parts = {(file.token, file.key): reader(file) for file in bundle.files}
        return cls(id=bundle.episode_id, status=bundle.status, parts=parts)

    def plan(self) -> BundlePlan[Pieces]:
        """Plan its bundle; see `coworld_core.roles.bundle_file.pack_bundle`."""

        def item(part: str, key: str | None, read: Callable[[], bytes]) -> BundleItem[Pieces]:
            return BundleItem[Pieces](part=part, key=key, source=lambda: (read(),))

        items = [item(*place, read) for place, read in self.parts.items() if place[0] != "metadata"]
        return plan_bundle(self.id, items, status="success" if self.ok else "failed", metadata=self.metadata)

    @property
    def ok(self) -> bool:
        """Whether the episode counts."""
        return self.status == "success"

    def read(self, part: str, key: str | int | None = None) -> bytes | None:
        """The bytes of a file; None if it was not delivered.

        Args:
            part: `results`, `replay`, `error_info`, `game_logs`, `player_logs`, `player_artifact` or `metadata`.
            key: Distinguishes files of one part: a slot, or the kind of log.
        """
        read = self.parts.get((part, None if key is None else str(key)))
        return None if read is None else read()

    def keys(self, part: str) -> tuple[str, ...]:
        """The keys of a part's files, in the order of the bundle."""
        return tuple(key for known, key in self.parts if known == part and key is not None)

    @cached_property
    def results(self) -> dict[str, Any]:
        """The game's results; empty if there are none.

        Raises:
            EvidenceError: They are not a JSON object.
        """
        return self._object("results")

    @cached_property
    def error(self) -> dict[str, Any]:
        """What went wrong, as `error_type`, `message` or `error`, and `failed_policy_index`; empty if nothing did.

        Raises:
            EvidenceError: It is not a JSON object.
        """
        return self._object("error_info")

    @property
    def failure(self) -> str:
        """What went wrong, in words; empty if nothing did."""
        return str(self.error.get("message") or self.error.get("error") or "")

    @cached_property
    def metadata(self) -> BundleMetadata:
        """What is known besides: the variant, the duration, the players' names."""
        return BundleMetadata.model_validate(self._object("metadata"))

    @property
    def replay(self) -> bytes:
        """The replay as the game wrote it.

        Raises:
            EvidenceError: There is none.
        """
        replay = self.read("replay")
        if replay is None:
            raise EvidenceError(f"The episode {self.id} has no replay.", code="evidence_missing")
        return replay

    def replay_json(self) -> Any:
        """The replay of a game that writes JSON.

        Raises:
            EvidenceError: There is none, or it is not JSON.
        """
        try:
            return parse_json(self.replay, source="replay").value
        except CoworldError as error:
            if isinstance(error, EvidenceError):
                raise
            raise EvidenceError(f"The replay of {self.id} is not JSON: {error}") from error

    @property
    def scores(self) -> tuple[float, ...]:
        """The score of each slot; empty without results."""
        scores = self.results.get("scores")
        return tuple(cast("list[float]", scores)) if isinstance(scores, list) else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The display name of each slot; `Slot N` where it is not known."""
        known = {seat.slot: seat.policy_name for seat in self.metadata.players}
        count = max([len(self.scores), *(slot + 1 for slot in known)])
        return tuple(known.get(slot) or f"Slot {slot}" for slot in range(count))

    @property
    def game_log(self) -> str:
        """All logs of the game, one after the other."""
        return "".join(self._text("game_logs", key) for key in self.keys("game_logs"))

    def player_log(self, slot: int) -> str:
        """The log of the player in a slot; empty if it was not delivered."""
        return self._text("player_logs", str(slot))

    def player_artifact(self, slot: int) -> bytes | None:
        """The zip that the player in a slot has left; None if it was not delivered."""
        return self.read("player_artifact", slot)

    def _text(self, part: str, key: str) -> str:
        return (self.read(part, key) or b"").decode("utf-8", "replace")

    def _object(self, part: str) -> dict[str, Any]:
        content = self.read(part)
        if content is None:
            return {}
        try:
            value: object = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise EvidenceError(f"The {part} of {self.id} are not JSON: {error}") from error
        if not isinstance(value, dict):
            raise EvidenceError(f"The {part} of {self.id} are not a JSON object.")
        return cast("dict[str, Any]", value)
