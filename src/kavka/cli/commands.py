"""All commands but the fast way into `serve`, and how their failures are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from kavka import __version__
from kavka.cli import profiles
from kavka.cli.completion import VARIABLE
from kavka.cli.menu import Menu, list_in
from kavka.cli.options import CLIENT_CONFIG, REGISTRY_URL, read_client_config
from kavka.cli.output import CommandError, abandon_stdout, note, write_line
from kavka.cli.profiles import Profiles
from kavka.model.errors import KafkaError

CLIENT_OPTION: Final = "--client-config"

app = typer.Typer(
    name="kavka",
    cls=Menu,
    help=(
        "Kavka: an Apache Kafka compatible streaming platform.\n\n"
        "Start a node with `kavka serve`, then in another terminal: `echo hello | kavka produce greetings` and "
        "`kavka consume greetings`. Commands talk to 127.0.0.1:9092 unless `--bootstrap`, the environment variable "
        "`KAVKA_BOOTSTRAP` or a profile (`kavka profile set`) says otherwise; `--output json` is for scripts."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"kavka {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Where the cluster is.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", envvar="KAVKA_PROFILE", metavar="NAME", help="The cluster of this profile."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            CLIENT_OPTION,
            envvar=CLIENT_CONFIG,
            metavar="FILE",
            help="A client.properties, as Kafka's: how connections are secured. The longer name may follow a command.",
        ),
    ] = None,
) -> None:
    """What can be said before any command."""
    if context.invoked_subcommand == "profile":
        return
    known = Profiles() if profile is None and (bootstrap or "KAVKA_BOOTSTRAP" in os.environ) else profiles.load()
    where, file = bootstrap, str(config) if config is not None else None
    chosen = known.find(profile)
    if chosen is not None:
        where = where or chosen.bootstrap
        file = file or chosen.config
        if chosen.registry is not None and REGISTRY_URL not in os.environ:
            _set(context, REGISTRY_URL, chosen.registry)
    if file is not None:
        if where is None:
            where = read_client_config(file).get("bootstrap.servers")
        _set(context, CLIENT_CONFIG, file)
    if where is not None:
        _set(context, "KAVKA_BOOTSTRAP", where)  # the default of every command's own option


def _set(context: typer.Context, name: str, value: str) -> None:
    """Set an environment variable for one command."""
    before = os.environ.get(name)
    os.environ[name] = value

    def put_back() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    context.call_on_close(put_back)


def config_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with a `--client-config` that stands after a command where all commands have theirs."""
    left = list(arguments)
    for index, argument in enumerate(left):
        if argument == "--":
            break
        if argument == CLIENT_OPTION and index + 1 < len(left) and left[0] != "profile":
            return [*left[index : index + 2], *left[:index], *left[index + 2 :]]
    return left


@app.command()
def serve(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", show_default="kavka-data", help="Where data is kept.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            show_default="127.0.0.1:9092",
            help="Where clients connect; port 0: any free one; host 0.0.0.0: every address, IPv6 too.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST[:PORT]",
            show_default="the host of --listen, or this machine's name",
            help="What clients are told to connect to.",
        ),
    ] = None,
    console: Annotated[str, typer.Option("--console", metavar="HOST:PORT|off", help="The web console.")] = "off",
    console_read_only: Annotated[
        bool, typer.Option("--console-read-only", help="The console only shows, and changes nothing.")
    ] = False,
    registry: Annotated[str, typer.Option("--registry", metavar="HOST:PORT|off", help="The schema registry.")] = "off",
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A server.properties file, as Kafka's.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="A key that wins over the file; may be repeated."),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Written as JSON once requests are served."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="How much the node says.")
    ] = "info",
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="Log lines for people, or a JSON object each.")
    ] = "text",
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Start even though metadata that was committed is missing.")
    ] = False,
) -> None:
    """Run a node until it is told to stop (SIGTERM or Ctrl-C).

    An empty data directory is formatted by itself. Any key of Kafka's server.properties can be given in a file, by
    `--override`, or in the environment (`KAVKA_LOG_RETENTION_HOURS=24`).

    Examples:

    - `kavka serve`
    - `kavka serve --data-dir /var/lib/kavka --listen 0.0.0.0:9092 --override num.partitions=3`
    - `kavka serve --listen 0.0.0.0:9092 --advertise broker1.example`
    """
    raise CommandError("serve talks to no cluster: nothing stands before it", 2)


list_in(app)


def run(arguments: Sequence[str]) -> int:
    """Run a command; its failure is one line on standard error. The exit code."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        result = app(args=config_first(arguments), prog_name="kavka", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        abandon_stdout()
        return 1
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        return 130
    except CommandError as error:
        return _fail(str(error), error.exit_code)
    except KafkaError as error:
        return _fail(f"{error} ({type(error).__name__}, error {error.code})")
    except OSError as error:
        known = error.filename is not None and error.strerror is not None
        return _fail(f"{error.filename}: {error.strerror}" if known else error.strerror or str(error))
    except ValueError as error:
        return _fail(str(error))
    except Exception as error:
        # Usage errors have their exit code and wording from the command-line library, whose class is private to it.
        code, wording = getattr(error, "exit_code", None), getattr(error, "format_message", None)
        if code is None or wording is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return int(code)
        return _fail(wording().replace("Value error, ", ""), int(code))  # of a check's error, which says nothing


def _fail(message: str, exit_code: int = 1) -> int:
    note(f"kavka: {' '.join(message.split())}")
    return exit_code
