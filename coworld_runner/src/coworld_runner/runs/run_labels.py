"""Changes the labels in a run's workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coworld_core.files.locks import while_opening
from coworld_core.records.labels import LABELS_NAME, RunLabels, check_changes, read_labels

from .workspace import atomic_write, unwritable

__all__ = ["change_labels"]


def change_labels(workspace: Path, changes: Mapping[str, str | None], *, episode: str = "") -> RunLabels:
    """Change labels of a run, which may be going on, and return all of them as its file has them now.

    Args:
        workspace: The run's workspace.
        changes: New values by name; None takes a label away.
        episode: The key of an episode of a run of many, to label that alone.

    Raises:
        UsageError: One of them is no label (`bad_label`), or the file cannot be read.
        RecordError: The file in the workspace has no labels.
        WorkspaceError: The workspace cannot be written to.
        EnvironmentFault: The disk is full.
    """
    check_changes(changes)
    try:
        # Two programs that label at once must not undo what the other does
        with while_opening(workspace):
            labels = read_labels(workspace).changed(changes, episode=episode)
            atomic_write(workspace / LABELS_NAME, labels.to_document())
    except OSError as error:
        raise unwritable(workspace, error) from error
    return labels
