"""Check untrusted JSON Schemas within a budget, and report their errors in plain words."""
