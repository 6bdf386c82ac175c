"""Signing in with the credentials of a Kafka client, and out."""

from __future__ import annotations

from starlette.responses import Response

from kavka.console.sessions import SignInError
from kavka.console.visits import COOKIE, Visit, redirect, safe_path


async def form(visit: Visit) -> Response:
    """The form."""
    if not visit.settings.signs_in:
        return redirect("/")
    return _form(visit, safe_path(visit.asked("next", "/")))


def _form(visit: Visit, after: str, status: int = 200, user: str = "", problem: str | None = None) -> Response:
    mechanisms = visit.settings.offered
    if not mechanisms and problem is None:
        problem = "this cluster's listener has no mechanism with a password: give the console a client.properties"
    return visit.page("sign_in.html", status, after=after, who=user, problem=problem, mechanisms=mechanisms)


async def sign_in(visit: Visit) -> Response:
    """Connect to the cluster with what was given."""
    after, user = safe_path(visit.form.get("next", "/")), visit.form.get("user", "")
    client = visit.request.client
    try:
        visit.id = await visit.sessions.sign_in(
            user, visit.form.get("password", ""), visit.form.get("mechanism", ""), client.host if client else ""
        )
    except SignInError as error:
        return _form(visit, after, 403, user, str(error))
    return redirect(after)


async def sign_out(visit: Visit) -> Response:
    """Forget who this browser is."""
    await visit.sessions.sign_out(visit.id)
    response = redirect("/")
    response.delete_cookie(COOKIE, path="/")
    return response
