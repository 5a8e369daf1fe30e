"""Paint Arena's supporting roles: programs that look at an episode after it was played."""
