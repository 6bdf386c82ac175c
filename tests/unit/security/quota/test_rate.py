"""Rates and token buckets, by the sums that Kafka's operators know."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.quota.rate import INT_MAX, Rate, TokenBucket, Windows

WINDOWS = Windows()


def used(bound, *uses):
    rate = Rate(bound, WINDOWS, 0)
    for value, now_ms in uses:
        rate.record(value, now_ms)
    return rate


def test_what_fits_ten_seconds_at_once_has_no_delay():
    assert used(100, (1000, 0)).throttle_ms(0) == 0


def test_a_delay_is_as_long_as_the_rate_takes_to_come_down():
    # 1,200 bytes count for ten seconds, so they are 120 a second: two seconds more make 100 of them
    assert used(100, (1200, 0)).throttle_ms(0) == 2000


def test_the_delay_has_no_limit_but_what_a_response_can_say():
    assert used(1, (10_000, 0)).throttle_ms(0) == 9_990_000
    assert used(1, (1 << 40, 0)).throttle_ms(0) == INT_MAX


def test_a_bound_of_nothing_is_never_kept():
    assert used(0, (1, 0)).throttle_ms(0) == INT_MAX


def test_what_was_given_back_was_never_used():
    rate = used(100, (500, 0), (700, 900), (-700, 900))
    assert rate.throttle_ms(900) == 0
    assert rate.per_second(900) == pytest.approx(500 / 10.9)


def test_a_steady_use_is_measured_over_the_windows_that_are_there():
    rate = used(100, *((100, second * 1000) for second in range(30)))
    assert rate.per_second(29_000) == pytest.approx(1100 / 10)
    assert rate.per_second(29_999) == pytest.approx(1100 / 10.999)


def test_what_is_too_old_does_not_count():
    rate = used(100, (5000, 0))
    assert rate.throttle_ms(10_999) > 0
    assert rate.throttle_ms(11_000) == 0


def test_another_bound_holds_for_what_was_used_before():
    rate = used(1000, (5000, 0))
    rate.bound = 100
    assert rate.throttle_ms(0) == 40_000


def test_the_most_that_can_be_had_at_once_is_just_not_delayed():
    rate = Rate(100, WINDOWS, 0)
    rate.record(rate.most, 5)
    assert rate.throttle_ms(5) == 0
    rate.record(1, 5)
    assert rate.throttle_ms(5) == 10


class Plain:
    """The same rate with every sample in sight, summed anew each time, as Kafka's classes do it."""

    def __init__(self, bound, windows):
        self.bound, self.windows = Fraction(bound), windows
        self.samples, self.current = [], 0

    def record(self, value, now_ms):
        if not self.samples:
            self.samples.append([now_ms, now_ms, Fraction(0)])
        if now_ms - self.samples[self.current][0] >= self.windows.length_ms:
            self.current = (self.current + 1) % (self.windows.samples + 1)
            if self.current >= len(self.samples):
                self.samples.append(None)
            self.samples[self.current] = [now_ms, now_ms, Fraction(0)]
        sample = self.samples[self.current]
        sample[2] += value
        sample[1] = now_ms

    def throttle_ms(self, now_ms):
        for sample in self.samples:
            if now_ms - sample[1] >= self.windows.samples * self.windows.length_ms:
                sample[:] = [now_ms, now_ms, Fraction(0)]
        elapsed = now_ms - min(sample[0] for sample in self.samples)
        full = elapsed // self.windows.length_ms
        if full < self.windows.samples - 1:
            elapsed += (self.windows.samples - 1 - full) * self.windows.length_ms
        elapsed = max(elapsed, 1)
        rate = sum(sample[2] for sample in self.samples) / Fraction(elapsed, 1000)
        return 0 if rate <= self.bound else math.floor((rate - self.bound) / self.bound * elapsed + Fraction(1, 2))


@given(
    st.integers(1, 5000),
    st.integers(1, 4),
    st.sampled_from([1000, 2000]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 20_000), st.booleans()), max_size=60),
)
def test_shortcuts_change_no_delay(bound, samples, length_ms, steps):
    windows = Windows(samples, length_ms)
    rate, plain = Rate(bound, windows, 0), Plain(bound, windows)
    now_ms = 0
    for wait_ms, value, back in steps:
        now_ms += wait_ms
        plain.record(value, now_ms)
        assert abs(rate.use(value, now_ms) - plain.throttle_ms(now_ms)) <= 1  # of a half millisecond rounded
        if back:
            rate.record(-value, now_ms)
            plain.record(-value, now_ms)


def test_a_bucket_may_owe_tokens_once_and_gets_them_back():
    bucket = TokenBucket(2, WINDOWS, 0)
    bucket.take(23, 0)
    assert bucket.throttle_ms(0) == 500
    assert bucket.throttle_ms(400) == 100
    assert bucket.throttle_ms(500) == 0
    bucket.take(1, 60_000)
    bucket.take(22, 60_000)
    assert bucket.throttle_ms(60_000) == 500


def test_a_bucket_holds_no_more_than_its_windows():
    bucket = TokenBucket(1, Windows(5, 2000), 0)
    bucket.take(11, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 1000
