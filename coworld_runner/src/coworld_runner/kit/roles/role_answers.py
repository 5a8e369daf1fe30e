"""Makes of what a role's function returns what its role must leave: a grade, or the zip of a report or a diagnosis."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pydantic import ValidationError

from coworld_core.errors import first_mistake
from coworld_core.roles.grade import Grade
from coworld_core.roles.player_diagnosis import DiagnosisFindings, write_diagnosis
from coworld_core.roles.report import write_report

from .role_error import RoleError

__all__ = ["answer_of", "grade_bytes", "write_diagnosis_files", "write_report_files"]

_FINDINGS = "findings.json"
_MANIFEST = "manifest.json"


@contextmanager
def answer_of(function: Callable[..., Any]) -> Generator[None]:
    """Name the file and the line of a function in what is wrong with its answer.

    Raises:
        RoleError: The block has raised one.
    """
    try:
        yield
    except RoleError as error:
        code = getattr(inspect.unwrap(function), "__code__", None)
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}: " if code is not None else ""
        raise RoleError(f"{where}{error.message}") from error


def grade_bytes(answer: object, identifier: str) -> bytes:
    """The grade that a function has returned, a number or an object, as JSON.

    Raises:
        RoleError: It is no grade.
    """
    told = dict(cast("Mapping[str, Any]", answer)) if isinstance(answer, Mapping) else {"score": answer}
    try:
        return Grade.model_validate({"grader_id": identifier, **told}).to_json()
    except (TypeError, ValueError) as error:
        raise RoleError(f"grade has returned what is no grade: {_mistake(error)}.") from error


def write_report_files(answer: object, identifier: str, target: Path) -> None:
    """Write the report that a function has returned, Markdown or files by name.

    Raises:
        RoleError: It is no report.
    """
    files = _files(answer, "report")
    write_report(
        target,
        files,
        reporter_id=identifier,
        render=_first(files, ".md", ".html"),
        event_log=_first(files, ".parquet"),
        trace=_first(files, ".jsonl"),
    )


def write_diagnosis_files(answer: object, identifier: str, target: Path) -> None:
    """Write the diagnosis that a function has returned, Markdown or files by name, the findings among them.

    Raises:
        RoleError: It is no diagnosis.
    """
    files = _files(answer, "diagnosis", function="diagnose")
    try:
        told = json.loads(files.pop(_FINDINGS, b"{}"))
        findings = DiagnosisFindings.model_validate({"diagnoser_id": identifier, **told})
    except (TypeError, ValueError) as error:
        raise RoleError(f"diagnose has returned {_FINDINGS} that is not valid: {_mistake(error)}.") from error
    write_diagnosis(target, findings, render=_first(files, ".md", ".html"), files=files)


def _files(answer: object, kind: str, *, function: str = "report") -> dict[str, bytes]:
    """The files of an answer: a text alone is Markdown, and what is neither text nor bytes is written as JSON."""
    if isinstance(answer, str) and answer:
        answer = {f"{kind}.md": answer}
    if not isinstance(answer, Mapping) or not answer:
        told = type(cast("object", answer)).__name__ if answer else "nothing"
        raise RoleError(f"{function} has returned {told}, not a page in Markdown or files by name.")
    files: dict[str, bytes] = {}
    for name, content in cast("Mapping[object, Any]", answer).items():
        if not isinstance(name, str) or name == _MANIFEST:
            raise RoleError(f"{function} has returned a file that is called {name!r}, which is no name for one.")
        try:
            if isinstance(content, str):
                content = content.encode()
            elif not isinstance(content, bytes):
                content = (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
        except (TypeError, ValueError) as error:
            raise RoleError(f"{function} has returned {name} that cannot be written: {error}.") from error
        files[name] = content
    return files


def _first(files: Mapping[str, bytes], *suffixes: str) -> str | None:
    return next((name for name in files if PurePosixPath(name).suffix in suffixes), None)


def _mistake(error: TypeError | ValueError) -> str:
    return ": ".join(filter(None, first_mistake(error))) if isinstance(error, ValidationError) else str(error)
