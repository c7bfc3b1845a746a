"""A property that is computed at its first use and then kept, by an object that threads share."""

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, Protocol, Self, TypeVar, overload

_Value = TypeVar("_Value")


class _Locked(Protocol):
    _lock: RLock


class computed_once(Generic[_Value]):  # noqa: N801  # a decorator
    """As `functools.cached_property`, computed by one thread under the object's own `_lock`, a reentrant one, while
    others wait.

    Python 3.11's cached_property has one lock for each property, which all objects of a class share. Two threads, each
    of which computes a property that asks for the other's, then wait for each other for ever.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: _Locked, owner: type) -> _Value: ...
    def __get__(self, instance: _Locked | None, owner: type) -> Self | _Value:
        """The value; from then on, the object's own attribute is found first, and nothing is called."""
        if instance is None:
            return self
        with instance._lock:
            attributes = vars(instance)
            if self._name not in attributes:
                attributes[self._name] = self._compute(instance)
            value: _Value = attributes[self._name]
            return value
