"""Compose files, Dockerfiles and build contexts.

Backends, packages and builds use this package; it uses none of them.
"""
