"""Certification: the steps that show a Coworld is *Executable*, with the evidence in a record and on a page."""

from .certificate_check import CheckedCertificate, check_certificate, find_certificate, needs_images
from .certification_page import render_page
from .certification_record import RECORD_NAME, Certification, Evidence, SourceRecord, StepRecord, read_certification
from .certifier import CertifyOptions, certify, certify_refused
from .signing_keys import make_key, public_path, read_public_keys, read_signing_key
from .source_references import SourceOptions
from .transcript import TRANSCRIPT, Transcript, TranscriptStep

__all__ = [
    "RECORD_NAME",
    "TRANSCRIPT",
    "Certification",
    "CertifyOptions",
    "CheckedCertificate",
    "Evidence",
    "SourceOptions",
    "SourceRecord",
    "StepRecord",
    "Transcript",
    "TranscriptStep",
    "certify",
    "certify_refused",
    "check_certificate",
    "find_certificate",
    "make_key",
    "needs_images",
    "public_path",
    "read_certification",
    "read_public_keys",
    "read_signing_key",
    "render_page",
]
