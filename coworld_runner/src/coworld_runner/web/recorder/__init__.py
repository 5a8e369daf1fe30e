"""The program that keeps what players and a game say to each other: it passes bytes on, and reads them afterwards.

This package is a program for Python 3.9 or later, without dependencies. An episode whose frames are recorded runs it
between its players and its game. Players connect to it as they would to the game. It passes every byte on before it
looks at it. Of what passes, it changes the heads of requests alone: it asks for messages that are not compressed, and
for one request on each connection.

What it reads goes to whoever connects to its second port with the right token, as lines of JSON: one for each message
of a seat, and a last one once the reader sends anything, which asks for the end. Nothing waits for the reader: what
cannot be sent is kept, up to a limit, beyond which the recording ends while the game goes on.
"""
