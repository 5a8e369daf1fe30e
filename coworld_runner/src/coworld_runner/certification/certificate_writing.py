"""Makes the certificate of a certification that has come to its end."""

from __future__ import annotations

import getpass
import hashlib
import platform

from coworld_core.certificate import Authority, Certificate, StepOutcomes, issue_certificate
from coworld_core.documents.canonical_json import canonical_json
from coworld_core.manifest.manifest_file import manifest_value
from coworld_core.text.terminal import strip_controls, writable

from ..runs.workspace import atomic_write
from .candidate import Candidate
from .certificate_check import CERTIFIED_MANIFEST
from .certification_record import Certification, outcomes_digest
from .package_content import content_of
from .step_ledger import StepLedger

__all__ = ["make_certificate"]


def make_certificate(
    candidate: Candidate, ledger: StepLedger, certification: Certification, record: bytes
) -> Certificate:
    """Make the certificate, sign it if there is a key, and write the manifest that it is about.

    Args:
        candidate: The Coworld, and how it was certified.
        ledger: The digests of its files and images.
        certification: What came of it.
        record: The bytes of `certification.json`.
    """
    options, images = candidate.options, None
    if candidate.backend.capabilities.images:
        images = {name: info.digest for name, info in ledger.images.items()}
    certified = candidate.layout.workspace / CERTIFIED_MANIFEST
    atomic_write(certified, canonical_json(manifest_value(candidate.manifest)) + b"\n")
    draft = Certificate(
        id="",
        coworld=certification.coworld,
        version=certification.version,
        verdict=certification.verdict,
        published=options.published,
        caveats=certification.caveats,
        content=content_of(candidate.manifest, ledger.files, images),
        transcript=StepOutcomes(
            name=certification.transcript,
            definition_sha256=certification.transcript_sha256,
            outcomes_digest=outcomes_digest(certification),
            record_sha256=hashlib.sha256(record).hexdigest(),
        ),
        backend=certification.backend,
        run_id=certification.run_id,
        started_at=certification.started_at,
        ended_at=certification.ended_at,
        versions=certification.versions,
        verifiable=_verifiable(certification),
        authority=Authority(name=_plain(options.authority or _account()), host=_plain(platform.node())),
    )
    return issue_certificate(draft, signer=options.signer)


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _plain(text: str) -> str:
    return strip_controls(writable(text))[:200]


def _verifiable(certification: Certification) -> str:
    """How runs can be verified, as far as the steps have shown it."""
    steps = {step.id: step for step in certification.own_steps}
    audit, repeats = steps.get("rules-audit"), steps.get("seed-repeats")
    if audit is not None and audit.status == "pass":
        return "replay"
    found = {row.code for row in repeats.evidence} if repeats is not None else set[str]()
    return "frames" if found & {"verifiable", "verifiable_in_time"} else ""
