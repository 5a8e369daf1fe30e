"""Suites that a platform plays: planned and added up as those of this machine, by the same code of core."""
