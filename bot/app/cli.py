"""The `plimsoll` command. Heavy parts are imported by the command that needs them: `--help` stays quick."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bot.app.policy_file import explain, load_policy
from bot.app.settings import Settings, check_api_host
from bot.core.errors import Misconfigured, OutsideFailed
from bot.core.policy import Policy
from bot.core.words import ThreadId

if TYPE_CHECKING:
    from bot.engine.storage import Archive

FINDING, USAGE, DEPENDENCY = 1, 2, 3
"""Exit codes: a finding or not found; bad usage or configuration; a dependency that is unreachable or refuses."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
audit = typer.Typer(no_args_is_help=True, help="Read, export and prove the logs of threads.")
config = typer.Typer(no_args_is_help=True, help="Check and explain the policy file.")
tools = typer.Typer(no_args_is_help=True, help="See the tools of this installation.")
app.add_typer(audit, name="audit")
app.add_typer(config, name="config")
app.add_typer(tools, name="tools")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Policy file; default PLIMSOLL_CONFIG, ./plimsoll.toml")
]


def main() -> None:
    """The script's entry: every known failure is one clear line and an exit code, never a stack trace."""
    try:
        app()
    except Misconfigured as error:
        _fail(str(error), USAGE)
    except OutsideFailed as error:
        _fail(str(error), DEPENDENCY)
    except OSError as error:
        if error.filename is None:
            _our_fault(error)
        _fail(f"{error.filename} cannot be used: {error.strerror}", USAGE)
    except Exception as error:  # noqa: BLE001  the last resort: a stack trace is nothing for a user
        _our_fault(error)


def _fail(line: str, code: int) -> NoReturn:
    print(f"plimsoll: {line}", file=sys.stderr)
    sys.exit(code)


def _our_fault(error: Exception) -> NoReturn:
    """One line for the user; the stack goes to a file for whoever mends it."""
    log = Path(os.environ.get("PLIMSOLL_HOME") or ".plimsoll") / "faults.log"
    kept = ""
    with contextlib.suppress(OSError):
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
            file.write("".join(traceback.format_exception(error)))
        kept = f"; the details are in {log}"
    said = " ".join(str(error).split())
    _fail(f"This is a fault of ours ({type(error).__name__}: {said}){kept}", FINDING)


def _read(config_file: Path | None) -> tuple[Settings, Policy]:
    env = dict(os.environ)
    if config_file is not None:
        env["PLIMSOLL_CONFIG"] = str(config_file)
    settings = Settings.read(env)
    return settings, load_policy(settings.config, must_exist=settings.config_is_explicit)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    import uvloop  # noqa: PLC0415  only commands that do something need it

    return uvloop.run(work) if sys.platform != "win32" else asyncio.run(work)


@app.command()
def serve(
    config_file: ConfigOption = None,
    role: Annotated[str, typer.Option(help="all, ingress or worker")] = "all",
    http: Annotated[bool, typer.Option("--http", help="Signed HTTP at /slack/events instead of Socket Mode")] = False,
) -> None:
    """Run the agent in a Slack workspace."""
    from bot.app.serve import serve as run_serve  # noqa: PLC0415  brings Slack, Redis and HTTP

    if role not in ("all", "ingress", "worker"):
        raise Misconfigured(f"--role {role!r}: all, ingress or worker")
    settings, policy = _read(config_file)
    _run(run_serve(settings, policy, role=role, http=http))


@app.command("try")
def try_it(
    real: Annotated[bool, typer.Option("--real", help="Ask the real model (ANTHROPIC_API_KEY)")] = False,
    story: Annotated[bool, typer.Option("--story", help="Play all three roles against itself and exit")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any free one")] = 8080,
) -> None:
    """Try everything on this machine: a local workspace page, a scripted model, no accounts."""
    from bot.app.trial import run_trial  # noqa: PLC0415  brings the lab

    sys.exit(asyncio.run(run_trial(real=real, story=story, port=port)))


@config.command("check")
def config_check(config_file: ConfigOption = None) -> None:
    """Say whether policy file and tools fit together."""
    from bot.app.wiring import make_toolbox  # noqa: PLC0415  imports the tool modules
    from bot.telemetry.notes import Notes  # noqa: PLC0415  as above

    settings, policy = _read(config_file)
    check_api_host(settings.slack_api_url, policy)
    found = make_toolbox(settings, policy, Notes())
    file = settings.config if settings.config.exists() else f"no {settings.config} here, defaults"
    rules = policy.approvals
    nobody = not any((rules.default, rules.send, rules.critical))
    warning = "; no approvers: nothing above the line will run" if nobody else ""
    print(f"{file}: good; {len(found.specs(''))} tools, policy version {policy.version[:16]}{warning}")


@config.command("explain")
def config_explain(config_file: ConfigOption = None) -> None:
    """Print every setting, its value, and whether it was set."""
    settings, policy = _read(config_file)
    print("\n".join(explain(policy, settings.config)))


@tools.command("list")
def tools_list(config_file: ConfigOption = None) -> None:
    """Print each tool with its class, output trust and what runs without a person."""
    from bot.app.wiring import make_toolbox  # noqa: PLC0415  imports the tool modules
    from bot.telemetry.notes import Notes  # noqa: PLC0415  as above

    settings, policy = _read(config_file)
    for spec in make_toolbox(settings, policy, Notes()).specs(""):
        asks = ", always asks" if spec.always_ask else ""
        print(f"{spec.name:<24} {spec.authority.word:<12} output {spec.output.word}{asks}")


def _audit(work: Callable[[Archive], Awaitable[tuple[str, int]]], thread: str | None = None) -> None:
    """Ask the archive; a name that is no thread's is refused before any store is opened or started."""
    if thread is not None:
        ThreadId.parse(thread)
    from bot.app.wiring import open_storage  # noqa: PLC0415  brings Redis

    async def run() -> tuple[str, int]:
        storage = await open_storage(Settings.read(os.environ))
        try:
            return await work(storage.store.archive)
        finally:
            await storage.close()

    text, code = asyncio.run(run())
    print(text)
    sys.exit(code)


@audit.command("threads")
def audit_threads() -> None:
    """List threads that have a log."""
    from bot.app.audit import threads  # noqa: PLC0415  brings the console

    _audit(threads)


@audit.command("show")
def audit_show(thread: str) -> None:
    """Tell a thread's log in sentences. THREAD is TEAM/CHANNEL/TS or a permalink."""
    from bot.app.audit import show  # noqa: PLC0415  brings the console

    _audit(lambda archive: show(archive, thread), thread)


@audit.command("search")
def audit_search(words: list[str]) -> None:
    """Find entries that hold all WORDS in any thread: a reference leads to its thread and place in the log."""
    from bot.app.audit import search  # noqa: PLC0415  brings the console

    _audit(lambda archive: search(archive, words))


@audit.command("export")
def audit_export(
    thread: str,
    form: Annotated[str, typer.Option("--format", help="jsonl, html or md")] = "jsonl",
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default standard output")] = None,
) -> None:
    """Write a thread's log to a file that can be verified offline."""
    from bot.app.audit import write_export  # noqa: PLC0415  brings the console

    if form not in ("jsonl", "html", "md"):
        raise Misconfigured(f"--format {form!r}: jsonl, html or md")
    _audit(lambda archive: write_export(archive, thread, form, out), thread)


@audit.command("verify")
def audit_verify(
    target: Annotated[str, typer.Argument(help="A thread, a permalink, or an exported file")],
    head: Annotated[str | None, typer.Option("--head", help="An anchored hash: a cut tail is noticed too")] = None,
) -> None:
    """Prove that a log is whole, or name the first entry that is not."""
    from bot.app.audit import verify_file, verify_thread  # noqa: PLC0415  brings the console

    if _is_file(target):
        text, code = verify_file(Path(target), head)
        print(text)
        sys.exit(code)
    try:
        ThreadId.parse(target)
    except Misconfigured as error:
        raise Misconfigured(f"There is no file {target!r}, and {error}") from None
    _audit(lambda archive: verify_thread(archive, target, head))


def _is_file(target: str) -> bool:
    try:
        return Path(target).is_file()
    except (OSError, ValueError):  # too long, or with a NUL: no name of a file
        return False


if __name__ == "__main__":
    main()
