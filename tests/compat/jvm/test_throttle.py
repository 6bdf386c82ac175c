"""Random quotas and use of them, judged by ours and by Kafka's own managers: the same delays to the millisecond."""

from __future__ import annotations

import random

from jvm.java_tools import Java

from kavka.security.quota.clients import ClientQuotas
from kavka.security.quota.limits import ALL, Client, QuotaType
from kavka.security.quota.rate import INT_MAX, Windows
from scale import rounds

SCHEDULES = rounds(full=2_000, ci=200)
STEPS = 80
START_MS = 1_000_000_000


def entity(name: str | None) -> str:
    return "-" if name == ALL else "*" if name is None else name


def test_the_same_delays_as_kafkas_managers(java: Java) -> None:
    draw = random.Random(20219)
    lines: list[str] = []
    ours: list[tuple[str, str]] = []
    for _ in range(SCHEDULES):
        windows = Windows(draw.choice((2, 3, 11)), draw.choice((1000, 2000)))
        quotas = ClientQuotas(windows, windows)
        limits: dict[QuotaType, dict[Client, float]] = {QuotaType.PRODUCE: {}, QuotaType.MUTATION: {}}
        lines.append(f"new\t{windows.samples}\t{windows.length_ms // 1000}")
        now_ms = START_MS
        clients: list[Client] = [(u, c) for u in ("u", None, ALL) for c in ("c", None, ALL) if (u, c) != (ALL, ALL)]
        for kind in limits:
            for client in draw.sample(clients, draw.choice((1, 1, 2, 4, 8))):
                limits[kind][client] = draw.choice((1.0, 7.5, 1000.0, 1e6)) * draw.randint(1, 9)
                word = "rate" if kind == QuotaType.PRODUCE else "tokens"
                lines.append("\t".join(["limit", word, *map(entity, client), str(limits[kind][client])]))
        quotas.limit(limits)
        for _ in range(STEPS):
            now_ms += draw.choice((0, 1, 50, 400, 999, 1000, 1001, 5000, 30_000))
            user, client_id = draw.choice(("u", "v")), draw.choice(("c", "d"))
            allowance = quotas.of(f"User:{user}", client_id, now_ms)
            value = float(draw.choice((0, 1, 10, 333, 5000, 1 << 20)))
            if draw.random() < 0.3:
                bucket = None if allowance is None else allowance.mutation
                delay = 0
                if bucket is not None:
                    delay = bucket.throttle_ms(now_ms)
                    if not delay:
                        bucket.take(value, now_ms)
                lines.append("\t".join(["use", "tokens", user, client_id, str(value), str(now_ms)]))
            else:
                rate = None if allowance is None else allowance.produce
                delay = 0
                if rate is not None:
                    delay = rate.use(value, now_ms)
                lines.append("\t".join(["use", "rate", user, client_id, str(value), str(now_ms)]))
                if rate is not None and draw.random() < 0.2:
                    rate.record(-value, now_ms)
                    ours.append((str(delay), lines[-1]))
                    lines.append("\t".join(["back", user, client_id, str(value), str(now_ms)]))
                    continue
            ours.append((str(delay), lines[-1]))
    answers = java.run("kavka.compat.Throttle", [], stdin="\n".join(lines).encode() + b"\n", timeout=300)
    theirs = answers.must_succeed().lines
    assert len(theirs) == len(ours)
    # where the delay does not fit 32 bits Kafka's wraps around, and ours is the largest there is
    differ = [
        (mine, other, what)
        for (mine, what), other in zip(ours, theirs, strict=True)
        if mine != other and int(mine) != INT_MAX
    ]
    assert not differ, f"{len(differ)} of {len(theirs)} differ; the first: {differ[0]}"
    assert sum(mine != "0" for mine, _ in ours) > len(ours) // 5
