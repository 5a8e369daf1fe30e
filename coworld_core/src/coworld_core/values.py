"""``dataclass(frozen=True)`` for what every command imports: the same classes, defined in a quarter of the time.

Up to Python 3.12, the standard library writes and compiles six functions for each frozen dataclass. That takes 0.27 ms,
twice what a pydantic model takes, and an episode imports fifty before its game can start. Here each class gets an
``__init__`` from the standard library, and what is the same for all classes is compiled once. The classes are
dataclasses to everybody: ``fields``, ``replace``, ``asdict``, ``copy`` and ``pickle`` work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(*, frozen, kw_only=False, eq=True):
        """Return the decorator; ``frozen`` must be True, and no base may be a dataclass."""
        assert frozen

        def define(cls):
            own = cls.__dict__.keys()
            cls = dataclasses.dataclass(cls, repr=False, eq=False, kw_only=kw_only)
            names = [field.name for field in dataclasses.fields(cls) if field.compare]
            methods = {"__setattr__": _set_once, "__delattr__": _keep, "__repr__": _describe}
            if eq:
                methods |= _comparing(attrgetter(*names) if names else type)
            for name, method in methods.items():
                if name not in own:
                    setattr(cls, name, method)
            cls.__dataclass_params__.frozen = True
            return cls

        return define

    def _set_once(self, name, value):
        values = self.__dict__
        if name in values or name not in self.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        values[name] = value

    def _keep(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    @recursive_repr()
    def _describe(self):
        shown = [field.name for field in dataclasses.fields(self) if field.repr]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def _comparing(compared):
        def equals(self, other):
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        def hashed(self):
            return hash(compared(self))

        return {"__eq__": equals, "__hash__": hashed}


__all__ = ["dataclass"]
