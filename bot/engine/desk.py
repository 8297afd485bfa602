"""Everything the engine works with, handed in by wiring; nothing here is built at import."""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.policy import Policy
from bot.core.strategy import Strategy
from bot.engine.ports import Clock, Model, People, Surface, Toolbox, Tracer
from bot.engine.storage import Store


@dataclass(frozen=True)
class Desk:
    """The ports and settings of one process."""

    store: Store
    model: Model
    toolbox: Toolbox
    people: People
    surface: Surface
    tracer: Tracer
    clock: Clock
    policy: Policy
    strategy: Strategy
    prompt: str
    """The system prompt, constant for a thread."""
    lease_s: float = 15.0
    """How long a lease holds without a renewal (redis.md rule 2)."""
    watch_s: float = 0.5
    """How often a lease holder looks for a stop; a stop must end a run within 2 s."""
    progress_s: float = 1.0
    """How often the progress message may change: Slack takes about one update a second (slack.md)."""
    delivery_tries: int = 4
    """Attempts at one delivery before the thread is set aside for a timer."""
    retry_s: float = 5.0
    """When a thread that met an outside failure is tried again; doubles up to 300 s."""
