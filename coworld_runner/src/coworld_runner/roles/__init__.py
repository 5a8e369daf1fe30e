"""What is done with an episode after it has ended: its bundle, which programs that look at episodes get.

An episode is played elsewhere, and nothing here changes what it has left.
"""
