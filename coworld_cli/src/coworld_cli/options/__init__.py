"""Options that several commands share, each declared once, with its help and its translation for the libraries.

Modules here import only click and constants when they are loaded, because imports delay every help text.
"""
