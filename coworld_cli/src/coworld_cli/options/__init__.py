"""Options that several commands share, each declared once: with its help, and with what it means to the libraries.

Modules here import click and constants alone when they are loaded, since every help text pays for it.
"""
