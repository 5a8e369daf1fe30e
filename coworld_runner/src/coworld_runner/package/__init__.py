"""From what a person types to a package: its manifest, its sources, and how its compose file and Dockerfiles read."""
