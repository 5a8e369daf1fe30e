"""Compose files, Dockerfiles and build contexts, and building one image on an engine.

Backends, packages and builds use this package; it uses none of them.
"""
