"""Templates, and the words and numbers that they show."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kavka.console.decoding import visible
from kavka.console.rates import size

HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


@cache
def environment() -> Environment:
    """The templates: everything in them is escaped unless a template says otherwise."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "size": lambda count: "–" if count is None or count < 0 else size(count),
        "rate": rate,
        "moment": moment,
        "ago": ago,
        "visible": visible,
        "segment": lambda text: quote(str(text), safe=""),
        "query": query,
        "plural": plural,
    }
    made.tests["topic_name"] = is_topic_name
    return made


def is_topic_name(text: str) -> bool:
    """Whether a topic can have such a name, so that there may be a page for it."""
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page."""
    return environment().get_template(template).render(values)


def number(count: float | None) -> str:
    """A count with its thousands apart."""
    return "–" if count is None else f"{count:,.0f}"


def rate(per_second: float | None) -> str:
    """How many a second."""
    if per_second is None:
        return "–"
    return f"{per_second:,.1f}" if 0 < per_second < 10 else f"{per_second:,.0f}"


def plural(count: int, word: str, words: str | None = None) -> str:
    """A count with the word for it."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def moment(timestamp_ms: int) -> str:
    """A time as people write it, in UTC."""
    if timestamp_ms < 0:
        return "no time"
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"@{timestamp_ms}"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def ago(timestamp_ms: float) -> str:
    """How long ago a time was."""
    if timestamp_ms < 0:
        return "never"
    seconds = max(0.0, time.time() - timestamp_ms / 1000)
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago" if seconds >= 1 else "now"


def query(values: Mapping[str, Any], **changes: Any) -> str:
    """The query of a link: these values with changes; what is empty is left out."""
    merged = {**values, **changes}
    return "?" + urlencode({name: value for name, value in merged.items() if value not in (None, "")})
