"""The exception root, and the exceptions of every layer below it.

::

    CoworldError
    ├── UsageError            the request makes no sense
    ├── DocumentError         a document has issues (carries the report)
    │   ├── ManifestError        a manifest, request or config
    │   └── RecordError          a record, summary or event that a run left
    ├── WorkspaceError        the output directory is not fresh, not writable, or not a directory
    ├── EnvironmentFault      this machine lacks something
    │   └── BackendError
    │       ├── BackendUnavailable   no engine, no permission, not installed
    │       ├── CapabilityError      this backend cannot enforce a requested feature
    │       ├── ImageError           absent, wrong platform, unpublished id
    │       ├── StartError           a unit could not be created or started
    │       └── TransferError        a file could not be copied into or out of a unit
    ├── NotReadyError         a unit did not become ready (also a `TimeoutError`)
    ├── EpisodeError          an episode ended with a fault (`EpisodeRecord.raise_for_fault`)
    ├── CertificationError    a certification step could not be carried out
    ├── CommissionerError     a commissioner failed, or gave an invalid answer
    ├── HookError             a hook before an episode failed, or returned no plan that can be played
    └── RemoteError           a server cannot be reached, refused, or gave an invalid answer

Failures of players and games are data (`Fault`); exceptions are for failures that stop coworld itself.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from .hints import hint_fields

if TYPE_CHECKING:
    from .issues import Report

__all__ = [
    "TRANSFER_CODES",
    "BackendError",
    "BackendUnavailable",
    "CapabilityError",
    "CertificationError",
    "CommissionerError",
    "CoworldError",
    "DocumentError",
    "EnvironmentFault",
    "EpisodeError",
    "ErrorKind",
    "HookError",
    "ImageError",
    "ManifestError",
    "NotReadyError",
    "RecordError",
    "RemoteError",
    "StartError",
    "TransferCode",
    "TransferError",
    "TransferParty",
    "UsageError",
    "WorkspaceError",
    "leaves",
    "unwrapped",
]

_MOST_DESCRIBED = 1000

ErrorKind = Literal["answer", "usage", "environment", "remote", "internal"]
"""Who must act: the author (the answer is no), the caller, the machine's owner, the remote side, or coworld."""


class CoworldError(Exception):
    """Root of every error coworld raises on purpose.

    Args:
        message: What happened and where, one or two plain sentences without markup.
        code: Stable snake_case identifier; defaults to the class's own.
        hint: What to do next, or None when the message says it; a `Hint` if it names arguments or functions.
        context: Identifiers a program may want (paths, slots, ids). Never secrets.

    Attributes:
        kind: Who must act; decides the exit status of the command line.
    """

    kind: ClassVar[ErrorKind] = "internal"
    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.context: dict[str, object] = dict(context or {})

    def __str__(self) -> str:
        """The message followed by the hint; programs use `message` and `hint`."""
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Bypass __init__, whose arguments differ by class: an unpickled error already has its attributes.
        return _restored, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, object]:
        """The error as JSON-ready data: `code`, `message`, `hint`, `context`.

        A `Hint` has its code and its values in `hint_code` and `hint_values`, too.
        """
        return {"code": self.code, "message": self.message, **hint_fields(self.hint), "context": self.context}


def _restored(kind: type[CoworldError], args: tuple[object, ...], state: dict[str, object]) -> CoworldError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(CoworldError):
    """The request makes no sense: a missing path, or options that exclude each other."""

    kind = "usage"
    default_code = "usage"


class DocumentError(CoworldError):
    """A document has errors; `report` lists all of them."""

    kind = "answer"
    default_code = "document_invalid"

    def __init__(self, report: Report, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(report.summary(), code=code, hint=hint)
        self.report = report

    def to_dict(self) -> dict[str, object]:
        """The error as data, with the whole report under `report`."""
        return {**super().to_dict(), "report": self.report.model_dump(mode="json")}


class ManifestError(DocumentError):
    """A manifest, episode request or game config has errors."""

    default_code = "manifest_invalid"


class RecordError(DocumentError):
    """The input is not a record of a run, or lacks a field that every version writes."""

    default_code = "record_invalid"


class EnvironmentFault(CoworldError):
    """This machine lacks something: an engine, a permission, a program, room on the disk."""

    kind = "environment"
    default_code = "environment"


class WorkspaceError(CoworldError):
    """The output directory is not fresh, is not writable, or is not a directory."""

    kind = "usage"
    default_code = "workspace"


class BackendError(EnvironmentFault):
    """A backend could not do its part."""

    default_code = "backend"


class BackendUnavailable(BackendError):
    """The backend's engine cannot be reached: not installed, not running, or not permitted."""

    default_code = "backend_unavailable"


class CapabilityError(BackendError):
    """The backend cannot enforce a requested feature; raised before anything starts."""

    kind = "usage"
    default_code = "capability_missing"


class ImageError(BackendError):
    """An image is absent, is for another platform, or is only an unpublished id."""

    default_code = "image_unreachable"


class StartError(BackendError):
    """A unit could not be created or started."""

    default_code = "start_failed"


TransferCode = Literal[
    "disk_full",
    "file_name",
    "file_too_large",
    "not_regular",
    "not_writable",
    "too_slow",
    "transfer_failed",
    "transfer_lost",
    "upload_failed",
    "upload_refused",
]
"""Why a file could not be transferred; see `TRANSFER_CODES`."""

TransferParty = Literal["writer", "caller", "platform"]
"""Who caused a failed transfer: the program that wrote the file, the caller, or the platform that carries it."""

TRANSFER_CODES: Mapping[TransferCode, TransferParty] = {
    # Unreadable, or changed during every attempt
    "transfer_failed": "writer",
    # A link, a pipe or a directory
    "not_regular": "writer",
    # Larger than the limit
    "file_too_large": "writer",
    # The requested name is not a plain file name
    "file_name": "caller",
    # The target is full
    "disk_full": "platform",
    # No permission to write, or no such directory
    "not_writable": "platform",
    # The source went away: the engine, the cluster, the pod's collector
    "transfer_lost": "platform",
    # Did not appear in time
    "too_slow": "platform",
    # No server or disk accepted it in time
    "upload_failed": "platform",
    # The server rejected it
    "upload_refused": "platform",
}
"""Every code of a `TransferError`, and the party that caused it."""


class TransferError(BackendError):
    """A file could not be copied into or out of a unit, or to its destination."""

    default_code: ClassVar[TransferCode] = "transfer_failed"
    code: TransferCode

    def __init__(
        self,
        message: str,
        *,
        code: TransferCode | None = None,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, context=context)

    @property
    def party(self) -> TransferParty:
        """The party that caused the failure."""
        # A third-party backend may have codes of its own
        return TRANSFER_CODES.get(self.code, "writer")


class NotReadyError(CoworldError, TimeoutError):
    """A unit did not become ready in time, or ended first; the log tail is in `context['log_tail']`."""

    kind = "answer"
    default_code = "not_ready"


class EpisodeError(CoworldError):
    """An episode ended with a fault. Raised only on request, by `EpisodeRecord.raise_for_fault`."""

    kind = "answer"
    default_code = "episode_failed"


class CertificationError(CoworldError):
    """A certification could not be carried out (a *failed* step is data, not this)."""

    kind = "answer"
    default_code = "certification_failed"


class CommissionerError(CoworldError):
    """A commissioner did not start, did not answer, went away or gave an invalid answer; its round is dropped."""

    kind = "answer"
    default_code = "commissioner_failed"


class HookError(CoworldError):
    """A hook before an episode failed, did not end, or returned no plan to play; the episode was not started."""

    kind = "usage"
    default_code = "hook_failed"


class RemoteError(CoworldError):
    """A server cannot be reached, refused a request, or gave an invalid answer."""

    kind = "remote"
    default_code = "remote_refused"


def leaves(error: BaseException) -> list[BaseException]:
    """The error itself, or every error in a group, however deeply nested."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in cast("tuple[BaseException, ...]", error.exceptions) for leaf in leaves(inner)]


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise a single error as itself, without the group that a task group wrapped it in.

    A group whose leaves are all `CoworldError` is replaced by its first leaf, with the others added as notes. A group
    with a single leaf is replaced by that leaf. Any other group is raised unchanged.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        first, *others = leaves(group)
        if others and not all(isinstance(error, CoworldError) for error in (first, *others)):
            raise
        for other in others:
            first.add_note(f"also: {other}")
        raise first from first.__cause__


class _Mistakes(Protocol):
    """The parts of `pydantic.ValidationError` that are needed here; pydantic takes long to import."""

    def error_count(self) -> int: ...

    def errors(self, *, include_url: bool, include_context: bool, include_input: bool) -> Sequence[Any]: ...


def first_mistake(error: _Mistakes) -> tuple[str, str]:
    """Return the place and the description of the first of a validation's errors.

    pydantic describes all of them or none, which takes minutes for a list with a million wrong elements. Of more than
    a thousand errors, only the number is returned, without a place.
    """
    count = error.error_count()
    if count > _MOST_DESCRIBED:
        return "", f"{count} values are not valid"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]
