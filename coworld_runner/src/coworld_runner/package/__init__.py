"""From what a person types to a package: its manifest, its sources."""
