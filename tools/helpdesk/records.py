"""The record system of the demo: SQLite under PLIMSOLL_HOME, made and filled at its first use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bot.core.tool import ToolError
from tools.helpdesk.seed_orders import CUSTOMERS, ORDERS, SHIPMENTS
from tools.helpdesk.seed_tickets import POLICIES, TICKETS

SCHEMA = 1
_TABLES = """
create table customers (id text primary key, name text not null, address text not null);
create table orders (id text primary key, customer text not null, item text not null, units integer not null,
    unit_cents integer not null, ordered_on text not null);
create table shipments (order_id text primary key, state text not null, delivered_on text not null,
    damaged_units integer not null);
create table tickets (id text primary key, order_id text not null, opened_on text not null, state text not null,
    text text not null);
create table policies (name text primary key, text text not null);
create table credits (key text primary key, order_id text not null, calculation_id text not null,
    units integer not null, amount_cents integer not null, issued_by text not null);
create table notes (id integer primary key, ticket_id text not null, text text not null);
create table replies (key text primary key, ticket_id text not null, text text not null);
"""
Answer = TypeVar("Answer")


class Records:
    """One database file; each use opens its own connection, so threads and processes may share it."""

    def __init__(self, home: Path) -> None:
        self._path = home / "helpdesk.db"

    def use(self, work: Callable[[sqlite3.Connection], Answer], *, writes: bool = False) -> Answer:
        """Run `work` in one transaction; writers wait for each other for up to 10 s.

        Raises `ToolError`, retryable, when the records are busy for longer.
        """
        try:
            with self._connected(writes) as connection:
                return work(connection)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            raise ToolError("The records are busy just now; make the same call again.", retryable=True) from error

    @contextmanager
    def _connected(self, writes: bool) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        connection.row_factory = sqlite3.Row
        try:
            # The default journal: changing it for a new file fails at once, without waiting, when two first uses meet.
            if connection.execute("pragma user_version").fetchone()[0] != SCHEMA:
                connection.execute("begin immediate")
                _fill(connection)
                connection.execute("commit")
            # Only who writes waits for another writer; a reader does not.
            connection.execute("begin immediate" if writes else "begin")
            yield connection
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        finally:
            connection.close()


def _fill(connection: sqlite3.Connection) -> None:
    """The demo's records, once; the write lock is held, so that two first uses do not meet."""
    if connection.execute("pragma user_version").fetchone()[0] == SCHEMA:
        return
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    for table, rows in (
        ("customers", CUSTOMERS),
        ("orders", ORDERS),
        ("shipments", SHIPMENTS),
        ("tickets", TICKETS),
        ("policies", POLICIES),
    ):
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into {table} values ({marks})", rows)
    connection.execute(f"pragma user_version = {SCHEMA}")


def one(connection: sqlite3.Connection, query: str, *values: Any) -> Mapping[str, Any] | None:
    """The first row as a dict."""
    row = connection.execute(query, values).fetchone()
    return dict(row) if row else None


def rows(connection: sqlite3.Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    """All rows as dicts."""
    return [dict(row) for row in connection.execute(query, values)]
