"""`kavka tokens`: delegation tokens, with which programs log in for a while without a user's password."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from datetime import UTC, datetime
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import Output, print_rows, tell
from kavka.client import Admin, DelegationToken

app = group("Look at and change delegation tokens (KIP-48).")

COLUMNS = ["id", "hmac", "owner", "requester", "renewers", "issued", "expires", "ends"]
HOUR_MS = 3_600_000

HmacArgument = Annotated[str, typer.Argument(metavar="HMAC", help="The token's secret, as create showed it.")]


@app.command("create")
def create_token(
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Another than who asks (needs CreateTokens).")
    ] = None,
    renewer: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="PRINCIPAL", help="Who may renew it; may be repeated.")
    ] = None,
    max_lifetime: Annotated[
        float | None, typer.Option("--max-lifetime", metavar="HOURS", show_default="the cluster's", help="Its end.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Create a token. Its id is the name and its HMAC the password of a log-in by SCRAM with `tokenauth=true`.

    Example: `kavka tokens create --renewer User:scheduler --max-lifetime 24`
    """
    lifetime_ms = -1 if max_lifetime is None else int(max_lifetime * HOUR_MS)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            token = await admin.create_token(owner=owner, renewers=renewer or (), max_lifetime_ms=lifetime_ms)
        print_rows(output, COLUMNS, [_row(token)])

    run(work())


@app.command("list")
def list_tokens(
    owner: Annotated[
        list[str] | None, typer.Option("--owner", metavar="PRINCIPAL", help="Only of this owner; may be repeated.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List the tokens that you own, may renew or have the right to see.

    Example: `kavka tokens list --owner User:alice`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_tokens(owner)
        print_rows(output, COLUMNS, [_row(token) for token in found])

    run(work())


@app.command("renew")
def renew_token(
    hmac: HmacArgument,
    period: Annotated[
        float | None, typer.Option("--for", metavar="HOURS", show_default="the cluster's", help="For how long.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Renew a delegation token.

    Example: `kavka tokens renew "$HMAC" --for 12`
    """
    secret = _secret(hmac)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            until = await admin.renew_token(secret, period_ms=-1 if period is None else int(period * HOUR_MS))
        tell(output, f"the token is good until {_time(until)}", expires=_time(until))

    run(work())


@app.command("expire")
def expire_token(
    hmac: HmacArgument,
    period: Annotated[
        float | None, typer.Option("--in", metavar="HOURS", min=0.0, show_default="at once", help="After how long.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """End a token, at once or after a while.

    Example: `kavka tokens expire "$HMAC"`
    """
    secret = _secret(hmac)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            when = await admin.expire_token(secret, period_ms=-1 if period is None else int(period * HOUR_MS))
        tell(output, f"the token ends at {_time(when)}", expires=_time(when))

    run(work())


def _secret(hmac: str) -> bytes:
    try:
        return b64decode(hmac, validate=True)
    except NotBase64:
        raise typer.BadParameter("it is no base64", param_hint="HMAC") from None


def _row(token: DelegationToken) -> dict[str, object]:
    return {
        "id": token.id,
        "hmac": b64encode(token.hmac).decode(),
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": _time(token.issued_ms),
        "expires": _time(token.expires_ms),
        "ends": _time(token.ends_ms),
    }


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
