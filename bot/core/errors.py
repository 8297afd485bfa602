"""Whose fault is it? Three families, handled in three ways.

`OurFault` is a broken rule of our own code: loud, never swallowed. `OutsideFailed` is the world not
answering: retried where that is safe, then escalated to a person. `ModelMistake` goes back to the model
as an instruction.
"""

from __future__ import annotations


class OurFault(Exception):
    """A rule of our own code was broken. Never caught to go on."""


class OutsideFailed(Exception):
    """Something outside did not answer or refused. The text is one clear line for a person."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ModelMistake(Exception):
    """The model asked for something that cannot be done. The text is an instruction back to it."""


class Misconfigured(Exception):
    """A setting that an operator must change; says setting, value, where it was read, and what is allowed."""


class Fenced(OutsideFailed):
    """Another worker owns the thread now: drop everything and say nothing."""
