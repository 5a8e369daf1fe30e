"""The catalogue of reporters, and what they have written."""

from __future__ import annotations

from pydantic import Field

from ._wire_models import Time, Wire, required

__all__ = ["ReporterDetail", "ReporterEntry", "ReporterOutput", "ReporterOutputKind"]


class ReporterOutputKind(Wire):
    """One of the things that a reporter writes."""

    name: str = required("Its name.")
    type: str = required("`file`, `json`, `render-html`, `render-markdown` or `event-log`.")
    description: str = required("What it is.")
    schema_uri: str | None = Field(default=None, alias="schema", description="URI of its JSON Schema.")
    optional: bool = Field(default=False, description="Whether a run may leave it out.")


class ReporterEntry(Wire):
    """A reporter that a platform knows."""

    id: str = required("`rptr_<uuid>`.")
    name: str = required("Its name, unique on the platform.")
    display_name: str = required("Its name for people.")
    description: str = required("What it reports.")
    user_id: str = required("The account that it belongs to.")
    latest_version: int | None = Field(
        default=None, description="Number of its newest version; null if it runs elsewhere than on the platform."
    )
    outputs: tuple[ReporterOutputKind, ...] = Field(default=(), description="What it writes.")
    run_count: int = Field(default=0, description="How often it was run.")
    output_count: int = Field(default=0, description="How much of what it has written is kept.")
    created_at: Time | None = required("When it was added.", None)


class ReporterOutput(Wire):
    """A file that a reporter has written."""

    id: str = required("Its id.")
    reporter_id: str = required("The reporter, `rptr_<uuid>`.")
    reporter_run_id: str | None = Field(default=None, description="The run; on some platforms a `role_<uuid>`.")
    name: str = required("Which of the reporter's outputs it is.")
    type: str = required("Its kind, as that of the output.")
    size_bytes: int | None = required("Its size in bytes.", None)
    media_type: str | None = Field(default=None, description="Its media type.")
    created_at: Time | None = required("When it was written.", None)
    url: str = required("Where it can be downloaded.")


class ReporterDetail(ReporterEntry):
    """A reporter, with the last of its outputs."""

    purpose: str | None = Field(default=None, description="What it is for, in one of the platform's words.")
    latest_output: ReporterOutput | None = Field(default=None, description="The last of its outputs that you may see.")
