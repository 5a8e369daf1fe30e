"""Finds a package and reads its manifest, its sources and its replay viewer."""
