"""Certification: the steps that show a Coworld is *Executable*, with the evidence in a record and on a page."""

from .certification_page import render_page
from .certification_record import RECORD_NAME, Certification, Evidence, SourceRecord, StepRecord, read_certification
from .certifier import PAGE_NAME, CertifyOptions, certify, certify_refused
from .source_references import SourceOptions
from .transcript import TRANSCRIPT, Transcript, TranscriptStep

__all__ = [
    "PAGE_NAME",
    "RECORD_NAME",
    "TRANSCRIPT",
    "Certification",
    "CertifyOptions",
    "Evidence",
    "SourceOptions",
    "SourceRecord",
    "StepRecord",
    "Transcript",
    "TranscriptStep",
    "certify",
    "certify_refused",
    "read_certification",
    "render_page",
]
