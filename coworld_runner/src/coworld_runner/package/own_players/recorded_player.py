"""`recording:PATH[@SLOT]`: a player that repeats what a seat did in an earlier episode."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import refuse_lfs_pointer
from coworld_core.files.regular import read_regular
from coworld_core.hints import Hint

from .own_player import MOST_BYTES, PYTHON, OwnPlayer

__all__ = ["ANSWERS", "RECORDING", "read_recording", "sent_frames"]

RECORDING = "recording:"
ANSWERS = "answers.jsonl"
"""File in the artifact of an `llm:` player: a line for each decision, with slot, tick and action."""
_FORM = re.compile(r"(?P<path>.+?)(@(?P<slot>\d{1,4}))?", re.DOTALL)


def read_recording(word: str) -> OwnPlayer:
    """Read the actions of an earlier episode.

    Args:
        word: `recording:` with an episode's directory, its replay, its bundle, or the artifact of an `llm:` player.

    Raises:
        UsageError: There is no such file, or it does not hold actions by tick.
    """
    # Only recordings need zips, and the kit's rules
    import zipfile

    from coworld_core.roles.bundle_file import is_bundle
    from coworld_core.rules import ReplayFormatError

    match = _FORM.fullmatch(word.removeprefix(RECORDING))
    if match is None:
        raise UsageError("recording: names no episode.", code="no_recording", hint="Write recording:DIRECTORY[@SLOT].")
    place = Path(match["path"]).expanduser()
    slot = int(match["slot"]) if match["slot"] else None
    layout = EpisodeLayout(place)
    if slot is not None and layout.frames.is_file() and not _acts_by_tick(layout.replay):
        frames, source = sent_frames(layout.frames, slot), str(layout.frames)
        return _recorded(word, slot, {"controller": "frames", "source": source, "slot": slot, "frames": frames})
    path = layout.replay if place.is_dir() else place
    try:
        if is_bundle(path):
            data = _replay_of_bundle(path)
        else:
            with path.open("rb") as file:
                data = refuse_lfs_pointer(file.read(MOST_BYTES), path)
    except OSError as error:
        raise UsageError(
            f"There is no recording at {path}: {error.strerror}.",
            code="no_recording",
            hint="Name an episode's directory, its replay, its bundle, or an llm: player's artifact.",
        ) from None
    try:
        actions, words = _answered(data) if data.startswith(b"PK") else _replayed(data, str(path))
    except (ReplayFormatError, ValueError, KeyError, zipfile.BadZipFile) as error:
        said = error.message if isinstance(error, ReplayFormatError) else f"{path} has no {ANSWERS} that can be read"
        raise UsageError(
            said,
            code="no_recording",
            hint=Hint(
                "record_frames_first",
                'Only games of the kit keep their actions by tick in the replay. Of others, record="frames" keeps what '
                "was said, and recording:DIRECTORY@SLOT repeats it.",
            ),
        ) from None
    if slot is not None and slot not in actions:
        raise UsageError(f"{path} has no actions of seat {slot}.", code="no_recording")
    content = {"controller": "recording", "source": str(path), "slot": slot, "actions": actions, "words": words}
    return _recorded(word, slot, content)


def _recorded(word: str, slot: int | None, content: dict[str, Any]) -> OwnPlayer:
    return OwnPlayer(
        name="recording" if slot is None else f"recording of seat {slot}",
        kind="recording",
        file=word,
        path=Path(word),
        files={"recording.json": json.dumps(content).encode()},
        command=(PYTHON, "-m", "coworld_client.seat", "{}/recording.json"),
        needs_client=True,
    )


def _acts_by_tick(replay: Path) -> bool:
    """Whether a file is the replay of a game of the kit, which has its actions."""
    from coworld_core.rules import ReplayFormatError, read_replay

    try:
        return bool(read_replay(read_regular(replay)).ticks)
    except (ReplayFormatError, OSError):
        return False


def sent_frames(path: Path, slot: int) -> list[dict[str, Any]]:
    """What a seat has sent, as `text` or `base64`, and how far the game was then (`FramePlace.fields`).

    Args:
        path: The file of frames.
        slot: The seat.

    Raises:
        UsageError: Code `no_recording`: it cannot be read, or does not have all of it.
    """
    import base64

    from coworld_core.records.frame_places import FramePlace
    from coworld_core.records.samples import iter_frames, recording_end

    end = recording_end(path)
    frames: list[dict[str, Any]] = []
    place = FramePlace()
    for frame in iter_frames(path):
        if frame.seat != slot:
            continue
        if frame.direction == "to_player":
            place.take(frame.tick)
            continue
        if frame.text is None and frame.data is None:
            raise UsageError(
                f"{path} does not have all of what seat {slot} sent: a message was too long.", code="no_recording"
            )
        said = {"text": frame.text} if frame.data is None else {"base64": base64.b64encode(frame.data).decode()}
        frames.append({**place.fields(), **said})
    if end is None or not end.complete:
        why = "it has no end" if end is None else end.reason
        raise UsageError(f"{path} does not have the whole game: {why}.", code="no_recording")
    return frames


def _replay_of_bundle(path: Path) -> bytes:
    from coworld_core.roles.bundle_file import read_bundle

    bundle = read_bundle(path)
    file = bundle.file("replay")
    if file is None or file.size > MOST_BYTES:
        raise UsageError(f"The bundle {path} has no replay, or a very large one.", code="no_recording")
    return b"".join(bundle.pieces(file))


_BySeat = dict[int, dict[int, Any]]
"""Something by seat and tick."""


def _replayed(data: bytes, source: str) -> tuple[_BySeat, _BySeat]:
    """What seats did, and what they said."""
    from coworld_core.rules import read_replay

    replay = read_replay(data, source=source)
    actions: _BySeat = {seat: {} for seat in range(replay.header.seats)}
    words: _BySeat = {seat: {} for seat in range(replay.header.seats)}
    for tick in replay.ticks:
        for seat, action in tick.actions.items():
            actions[seat][tick.tick - 1] = action
        for one in tick.said:
            words[one.seat].setdefault(tick.tick - 1, []).append((one.text, one.to))
    return actions, words


def _answered(data: bytes) -> tuple[_BySeat, _BySeat]:
    import zipfile

    actions: _BySeat = {}
    words: _BySeat = {}
    with zipfile.ZipFile(io.BytesIO(data)) as artifact:
        if artifact.getinfo(ANSWERS).file_size > MOST_BYTES:
            raise ValueError
        for line in artifact.read(ANSWERS).splitlines():
            answer: dict[str, Any] = json.loads(line)
            # Earlier versions wrote "seat".
            slot: int = answer["slot"] if "slot" in answer else answer["seat"]
            actions.setdefault(slot, {})[answer["tick"]] = answer["action"]
            if said := answer.get("words"):
                words.setdefault(slot, {}).setdefault(answer["tick"], []).extend(said)
    return actions, words
