"""Changing a frozen value: a copy with some fields set otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replace"]

if TYPE_CHECKING:
    # The type checker knows the standard library's own and compares the type of each field.
    from dataclasses import replace
else:
    Value = TypeVar("Value")

    def replace(one: Value, /, **changes: Any) -> Value:
        """As `dataclasses.replace`, several times faster; for frozen values without slots and `__post_init__`.

        A session of 100 turns is folded from five thousand such copies, which were two thirds of its cost.
        Raises `TypeError` for an unknown field.
        """
        fields = one.__dict__ | changes
        if len(fields) != len(one.__dict__):
            unknown = ", ".join(sorted(fields.keys() - one.__dict__.keys()))
            raise TypeError(f"{type(one).__name__} has no field {unknown}")
        copy = object.__new__(type(one))
        object.__setattr__(copy, "__dict__", fields)
        return copy
