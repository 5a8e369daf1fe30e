"""Signs the records of episodes, which name everything else that an episode has left by digest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from coworld_core.documents.seals import Signer
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record

from ...runs.workspace import atomic_write
from .provenance import PROVENANCE_NAME, signed_provenance

__all__ = ["sign_records"]


def sign_records(workspaces: Iterable[Path], signer: Signer) -> int:
    """Sign the records of episodes that are over, and leave their provenance (`PROVENANCE_NAME`) beside them. Blocks.

    A record that is changed afterwards loses its signature.

    Args:
        workspaces: The directories of the episodes; one that failed before it had a record is passed over.
        signer: A private key (`coworld_runner.certification.read_signing_key`).

    Returns:
        Number of signed records.

    Raises:
        RecordError: A record cannot be read.
        WorkspaceError: It cannot be written.
    """
    signed = 0
    for workspace in workspaces:
        layout = EpisodeLayout(workspace)
        if layout.record.is_file():
            record = read_record(layout.record).signed_by(signer)
            atomic_write(workspace / PROVENANCE_NAME, signed_provenance(record, signer))
            atomic_write(layout.record, record.to_document())
            signed += 1
    return signed
