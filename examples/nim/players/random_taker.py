"""Takes a random number of sticks: an easy first opponent."""


def act(observation, legal, rng):
    """Take any legal number of sticks."""
    return rng.choice(legal)
