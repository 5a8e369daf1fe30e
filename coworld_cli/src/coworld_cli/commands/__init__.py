"""One module a command; each is imported when its command is called."""

__all__: list[str] = []
