"""weir_model.py: what every limiter must answer, in rational numbers.

The reference for the engine. It is written directly from the rules of tests/vectors/README.md, for clarity: instants of
smooth buckets are Fractions of a nanosecond, everything else is a whole number of any size. It knows word sizes only
where an answer shows them: durations are rounded up and end at 2^64-1.

make_limit makes a limit. Every operation takes the time and returns an Answer. None in a field means that it does not
apply.

Interpretations, where the rules leave room:
- Every operation first notices a new clock, and that stays, whatever the answer. A denial, a peek or a cost of 0
  changes nothing else. Refills, ends of windows and ages of events are computed on the fly. Charging, giving back and
  (interval) changing a limit store them.
- A full bucket or an empty window is as new. It is forgotten when something is given back to it, and a bucket also when
  a change leaves it full. A full bucket whose burst grows keeps its tokens, so it then misses some. Otherwise a limit
  that is lowered and raised again would give tokens away.
- A smooth bucket that is behind its own time because the clock stepped back is empty when its limit is changed, and
  stays behind by as much.
- A rejected change changes nothing: it does not even notice a new clock.
- A clock counts as stepped back: for smooth buckets when they owe more than burst/rate + 60 s; for intervals and
  windows when their start lies more than 60 s ahead; for logs when their newest event does; for counters when their
  newest sub-window does.
- A reservation made at most 60 s ahead of now explains any debt up to the instant (in ns, rounded up) at which the
  bucket was to be full when the reservation was made, or when the limit was changed since. Nothing is cut then.
- A reservation of 0 charges nothing and explains nothing.
- Cancelling gives back as a refund does. A reservation is cancelled once.
- count=all: a denied cost counts as requested, also one that can never fit, and an `up to` that found nothing.
  remaining, retry and reset are those after counting. A log counts at most `count` of it and keeps its newest `count`
  units. A fixed window stops counting at 2^48-1 if its count is below 2^48, otherwise at 2^64-1; a sub-window at
  2^64-1.
- Recording in a log forgets the events that have expired. So does giving back.
- An undo gives back units of one charge, never more than the charge was, and only what still counts. Of a bucket: at
  most the cost minus all that has flowed in since the charge, and at most what is used; the last unit may have flowed
  in partly and counts as given. Of a window only in the window, and of a sliding counter only in the sub-window, in
  which the charge was made. Of a log only from the events at the time of the charge, or a little later, where a clock
  that is behind is counted. With count=all nothing.
- Several limits: the same limit twice is one claim of both costs. The retries and what remains after counting tell
  which limit decided, but only a limit that denied before counting has denied."""

from fractions import Fraction
from math import ceil, gcd
from typing import NamedTuple, Optional

MAX = 2**64 - 1
STEP_BACK_MAX = 60 * 10**9
CLOCKS_DIFFER_MAX = 10**6
LOG_COUNT_MAX = 2**32 - 1
SEGMENTS_MAX = 2**20
SLIM_COUNT_MAX = 2**48 - 1

ALLOW, DENY, NEVER, ERROR = 'allow', 'deny', 'never', 'error'


class Answer(NamedTuple):
    verdict: str
    remaining: Optional[int] = None
    retry: Optional[int] = None
    reset: Optional[int] = None
    delay: Optional[int] = None
    granted: Optional[int] = None
    by: Optional[int] = None  # several limits: the index of the one that decided


REFUSED = Answer(ERROR)


class Reservation:
    """A place in the future of a token bucket. Its cost is 0 if it was denied or cancelled."""
    __slots__ = ('limit', 'cost', 'act')

    def __init__(self, limit, cost, act):
        self.limit, self.cost, self.act = limit, cost, act


def span_up(span):
    """A duration as an answer states it."""
    return min(ceil(span), MAX)


class Limit:
    """The shape of each operation, which all algorithms share. The hooks below are called after notice(now)."""
    count_all = False

    def __init__(self, count, period, most):
        self.count, self.period, self.most = count, period, most

    # Hooks.

    def notice(self, now):
        """Detects a new clock."""
        raise NotImplementedError

    def room(self, now):
        """Whole units that would be allowed now."""
        raise NotImplementedError

    def charge(self, now, cost):
        raise NotImplementedError

    def give(self, now, n):
        raise NotImplementedError

    def still_charged(self, now, at, cost):
        """How much of a charge of cost made at an instant still counts."""
        raise NotImplementedError

    def give_charged(self, now, at, n):
        """Gives back n units, which still count, of a charge made at an instant."""
        self.give(now, n)

    def retry(self, now, cost):
        """How long until cost fits. It does not fit now, but will."""
        raise NotImplementedError

    def reset(self, now):
        return None

    def delay(self, now):
        return None

    def count_denied(self, now, cost):
        pass

    # Operations.

    def verdict(self, now, cost):
        """What take would decide."""
        self.notice(now)
        return ALLOW if cost <= self.room(now) else NEVER if cost > self.most else DENY

    def take(self, now, cost):
        self.notice(now)
        room = self.room(now)
        if cost <= room:
            delay = self.delay(now)
            if cost:
                self.charge(now, cost)
            return Answer(ALLOW, room - cost, None, self.reset(now), delay)
        if self.count_all:
            self.count_denied(now, cost)
            room = self.room(now)
        return self._refusal(now, cost, room, None)

    def peek(self, now, cost):
        self.notice(now)
        room = self.room(now)
        if cost <= room:
            return Answer(ALLOW, room, None, self.reset(now), self.delay(now))
        return self._refusal(now, cost, room, None)

    def upto(self, now, cost):
        self.notice(now)
        room = self.room(now)
        granted = min(cost, room)
        if granted or not cost:
            delay = self.delay(now)
            if granted:
                self.charge(now, granted)
            return Answer(ALLOW, room - granted, None, self.reset(now), delay, granted)
        if self.count_all:
            self.count_denied(now, cost)
        return self._refusal(now, 1, 0, 0)

    def refund(self, now, n):
        self.notice(now)
        self.give(now, n)
        return Answer(ALLOW, self.room(now), None, self.reset(now))

    def undo(self, now, n, at, cost):
        """Gives back up to n of a charge of cost made at an instant. `given` is then the exact amount."""
        self.notice(now)
        given = 0 if self.count_all else min(n, cost, self.still_charged(now, at, cost))
        if given:
            self.give_charged(now, at, given)
        self.given = given
        return Answer(ALLOW, self.room(now), None, self.reset(now), None, ceil(given))

    def reserve(self, now, cost):
        """Returns (answer, reservation)."""
        return REFUSED, Reservation(self, 0, now)

    def _refusal(self, now, cost, room, granted):
        if cost > self.most:
            return Answer(NEVER, room, None, self.reset(now), None, granted)
        return Answer(DENY, room, self.retry(now, cost), self.reset(now), None, granted)


class Bucket(Limit):
    """A limit with a burst. Reservations may take it into debt."""

    def __init__(self, count, period, burst, initial=None):
        super().__init__(count, period, burst)
        self.initial = initial
        self.reserved_at = None
        self.reserved_until = 0

    def whole_ns(self):
        """The instant at which the bucket is full again."""
        raise NotImplementedError

    def is_debt(self, now):
        """Whether reservations explain what lies ahead, so that it is not a new clock."""
        return (self.reserved_at is not None and now + STEP_BACK_MAX >= self.reserved_at
                and now < self.whole_ns() <= self.reserved_until)

    def note_debt(self, now):
        if self.reserved_at is None or self.reserved_at > now + STEP_BACK_MAX:
            self.reserved_at, self.reserved_until = now, self.whole_ns()
        else:
            self.reserved_at = max(self.reserved_at, now)
            self.reserved_until = max(self.reserved_until, self.whole_ns())

    def start(self, now):
        """At the first use, charges all but the initial tokens."""
        missing, self.initial = self.most - self.initial, None
        if missing:
            self.charge(now, missing)

    def act_at(self, now, cost):
        """When a reservation of cost that is made now may act."""
        raise NotImplementedError

    def can_owe(self, now, cost):
        """Whether the engine can hold this additional debt."""
        return True

    def built_upon(self, act):
        """What was reserved after a reservation that acts at `act`."""
        raise NotImplementedError

    def reserve(self, now, cost):
        self.notice(now)
        if cost > self.most or not self.can_owe(now, cost):
            return Answer(NEVER, self.room(now), None, self.reset(now)), Reservation(self, 0, now)
        act = self.act_at(now, cost)
        if cost:
            self.charge(now, cost)
            self.note_debt(now)
        return Answer(ALLOW, self.room(now), None, self.reset(now), span_up(act - now)), Reservation(self, cost, act)

    def cancel(self, now, reservation):
        self.notice(now)
        if now <= ceil(reservation.act):
            back = max(0, reservation.cost - self.built_upon(reservation.act))
            if back:
                self.give(now, back)
        reservation.cost = 0
        return Answer(ALLOW, self.room(now), None, self.reset(now))

    def set(self, now, count=None, period=None, burst=None):
        count = self.count if count is None else count
        period = self.period if period is None else period
        burst = self.most if burst is None else burst
        if self.initial is not None:
            self.start(now)
        if self.refuses(count, period, burst):
            return REFUSED
        self.notice(now)
        is_debt = self.is_debt(now)
        self.change(now, count, period, burst)
        if is_debt:
            self.note_debt(now)
        return Answer(ALLOW, self.room(now), None, self.reset(now))

    @staticmethod
    def refuses(count, period, burst):
        return not (1 <= count <= MAX and 1 <= period <= MAX and 1 <= burst <= MAX)


class SmoothBucket(Bucket):
    """The state is the instant at which the bucket is full: a Fraction of ns; 0 is as new."""

    def __init__(self, count, period, burst, initial=None):
        super().__init__(count, period, burst, initial)
        self.full_at = 0
        self.owed = 0  # full_at - now, at least 0; as of the last notice
        self._derive()

    def _derive(self):
        """Computes the rate in lowest terms, and values derived from it."""
        divisor = gcd(self.count, self.period)
        self.count //= divisor
        self.period //= divisor
        self.rate = Fraction(self.count, self.period)
        self.full_span = self.span_of(self.most)
        self.owed_max = self.full_span + STEP_BACK_MAX

    @staticmethod
    def refuses(count, period, burst):
        if Bucket.refuses(count, period, burst):
            return True
        divisor = gcd(count, period)
        return 2**64 * (count // divisor) + burst * (period // divisor) > 2**128

    def span_of(self, tokens):
        """The time in which this many tokens flow in."""
        return Fraction(tokens * self.period, self.count)

    def whole_ns(self):
        return min(ceil(self.full_at), MAX)

    def notice(self, now):
        if self.initial is not None:
            self.start(now)
        owed = self.full_at - now
        if owed <= 0:
            owed = 0
        elif owed > self.owed_max and not self.is_debt(now):
            owed = self.full_span
            self.full_at = now + owed
        self.owed = owed

    def room(self, now):
        return max(0, self.most - ceil(self.owed * self.rate))

    def charge(self, now, cost):
        self.full_at = max(self.full_at, now) + self.span_of(cost)
        self.owed = self.full_at - now

    def give(self, now, n):
        self.full_at -= n / self.rate
        if self.full_at <= now:
            self.full_at = 0
        self.owed = max(0, self.full_at - now)

    def still_charged(self, now, at, cost):
        return max(0, min(cost - max(0, now - at) * self.rate, self.owed * self.rate))

    def retry(self, now, cost):
        return span_up(self.owed - self.span_of(self.most - cost))

    def reset(self, now):
        return span_up(self.owed)

    def act_at(self, now, cost):
        return max(now, max(self.full_at, now) + self.span_of(cost) - self.full_span)

    def built_upon(self, act):
        return max(0, self.full_at - self.full_span - act) * self.rate

    def change(self, now, count, period, burst):
        used, behind = self.owed * self.rate, 0
        kept = min(used, self.most, burst)
        if self.is_debt(now):
            kept += max(0, used - self.most)
        else:
            behind = max(0, self.owed - self.full_span)
        self.count, self.period, self.most = count, period, burst
        self._derive()
        if kept == 0:
            self.full_at = 0
        else:
            exact = now + behind + kept / self.rate
            self.full_at = Fraction(ceil(exact * self.count), self.count)
        self.owed = max(0, self.full_at - now)


class LeakyBucket(SmoothBucket):
    """The same with water for missing tokens. An allowed request departs when the water before it has leaked."""

    def delay(self, now):
        return span_up(self.owed)

    def reserve(self, now, cost):
        return Limit.reserve(self, now, cost)


class IntervalBucket(Bucket):
    """The state is how many tokens are missing, and the instant from which periods count; 0 missing is as new."""

    def __init__(self, count, period, burst, initial=None):
        super().__init__(count, period, burst, initial)
        self.anchor = 0
        self.missing = 0

    def whole_ns(self):
        return min(self.anchor + ceil(Fraction(self.missing, self.count)) * self.period, MAX)

    def notice(self, now):
        if self.initial is not None:
            self.start(now)
        if self.missing and self.anchor - now > STEP_BACK_MAX and not self.is_debt(now):
            self.anchor = now
            self.missing = min(self.missing, self.most)

    def settled(self, now):
        """(anchor, missing) after the refills up to now."""
        if now < self.anchor or not self.missing:
            return self.anchor, self.missing
        refills = (now - self.anchor) // self.period
        return self.anchor + refills * self.period, max(0, self.missing - refills * self.count)

    def until_refilled(self, now, tokens):
        anchor = self.settled(now)[0]
        return span_up(anchor + ceil(Fraction(tokens, self.count)) * self.period - now)

    def room(self, now):
        return max(0, self.most - self.settled(now)[1])

    def charge(self, now, cost):
        self.anchor, self.missing = self.settled(now)
        if not self.missing:
            self.anchor = now
        self.missing += cost

    def give(self, now, n):
        self.anchor, self.missing = self.settled(now)
        self.missing = max(0, self.missing - n)

    def still_charged(self, now, at, cost):
        anchor, missing = self.settled(now)
        refills = max(0, ceil(Fraction(anchor - at, self.period)))
        return max(0, min(cost - refills * self.count, missing))

    def retry(self, now, cost):
        return self.until_refilled(now, self.settled(now)[1] - (self.most - cost))

    def reset(self, now):
        missing = self.settled(now)[1]
        return self.until_refilled(now, missing) if missing else 0

    def act_at(self, now, cost):
        anchor, missing = self.settled(now)
        if missing + cost <= self.most:
            return now
        if not missing:
            anchor = now
        return max(now, anchor + ceil(Fraction(missing + cost - self.most, self.count)) * self.period)

    def can_owe(self, now, cost):
        return self.settled(now)[1] + cost <= self.missing_max()

    def missing_max(self):
        """The largest debt that the engine can hold."""
        return SLIM_COUNT_MAX if self.most <= SLIM_COUNT_MAX else MAX

    def built_upon(self, act):
        if self.missing <= self.most:
            return 0
        newest = self.anchor + ceil(Fraction(self.missing - self.most, self.count)) * self.period
        return max(0, newest - act) // self.period * self.count

    def change(self, now, count, period, burst):
        anchor, missing = self.settled(now)
        kept = min(missing, self.most, burst) + max(0, missing - self.most)
        if period != self.period or not missing:
            anchor = now
        self.count, self.period, self.most = count, period, burst
        self.anchor, self.missing = anchor, min(kept, self.missing_max())


class Window(Limit):
    """What windows share: only their count may change, and they keep their usage."""

    def __init__(self, count, period, count_all=False):
        super().__init__(count, period, count)
        self.count_all = count_all

    @staticmethod
    def refuses(count, period):
        return not (1 <= count <= MAX and 1 <= period <= MAX)

    def set(self, now, count=None, period=None, burst=None):
        count = self.count if count is None else count
        if period not in (None, self.period) or self.refuses(count, self.period) or burst is not None:
            return REFUSED
        self.notice(now)
        self.count = self.most = count
        self.recount()
        return Answer(ALLOW, self.room(now), None, self.reset(now))

    def recount(self):
        """Called after a change of the count."""


class FixedWindow(Window):
    """The state is the start of the window and its usage; usage 0 is as new."""

    def __init__(self, count, period, count_all=False, align_first=False):
        super().__init__(count, period, count_all)
        self.align_first = align_first
        self.began = 0
        self.used = 0

    def beginning(self, now):
        """Where a window that opens now begins."""
        return now if self.align_first else now - now % self.period

    def notice(self, now):
        if self.used and self.began - now > STEP_BACK_MAX:
            self.began = self.beginning(now)

    def settled(self, now):
        """(began, used) of the window at now."""
        if not self.used or now >= self.began + self.period:
            return self.beginning(now), 0
        return self.began, self.used

    def room(self, now):
        return max(0, self.count - self.settled(now)[1])

    def charge(self, now, cost):
        self.began, self.used = self.settled(now)
        self.used += cost

    def count_denied(self, now, cost):
        if cost:
            self.charge(now, cost)
            self.recount()

    def recount(self):
        self.used = min(self.used, SLIM_COUNT_MAX if self.count <= SLIM_COUNT_MAX else MAX)

    def give(self, now, n):
        self.began, self.used = self.settled(now)
        self.used = max(0, self.used - n)

    def still_charged(self, now, at, cost):
        began, used = self.settled(now)
        return used if began <= at < began + self.period else 0

    def retry(self, now, cost):
        return self.reset(now)

    def reset(self, now):
        began, used = self.settled(now)
        return span_up(began + self.period - now) if used else None


class SlidingLog(Window):
    """The state is the events in order of time, as (instant, units)."""

    def __init__(self, count, period, count_all=False):
        super().__init__(count, period, count_all)
        self.events = []

    @staticmethod
    def refuses(count, period):
        return Window.refuses(count, period) or count > LOG_COUNT_MAX

    def notice(self, now):
        if self.events and self.events[-1][0] - now > STEP_BACK_MAX:
            self.events = [(min(at, now), units) for at, units in self.events]

    def decided_at(self, now):
        """Time does not run backwards in a log."""
        return max(now, self.events[-1][0]) if self.events else now

    def live(self, now):
        gone = self.decided_at(now) - self.period
        if self.events and self.events[0][0] > gone:
            return self.events
        return [event for event in self.events if event[0] > gone]

    def room(self, now):
        return max(0, self.count - sum(units for _, units in self.live(now)))

    def charge(self, now, cost):
        self.events = [*self.live(now), (self.decided_at(now), cost)]

    def count_denied(self, now, cost):
        if not cost:
            return
        self.charge(now, min(cost, self.count))
        excess = sum(units for _, units in self.events) - self.count
        while excess > 0:
            at, units = self.events.pop(0)
            if units > excess:
                self.events.insert(0, (at, units - excess))
            excess -= units

    def give(self, now, n):
        self.events = list(self.live(now))
        while n and self.events:
            at, units = self.events.pop()
            if units > n:
                self.events.append((at, units - n))
            n -= min(n, units)

    def is_charge(self, event_at, at):
        return 0 <= event_at - at <= CLOCKS_DIFFER_MAX

    def still_charged(self, now, at, cost):
        if self.decided_at(now) - at >= self.period:
            return 0
        return sum(units for event_at, units in self.events if self.is_charge(event_at, at))

    def give_charged(self, now, at, n):
        kept = []
        for event_at, units in self.events:
            back = min(n, units) if self.is_charge(event_at, at) else 0
            n -= back
            if units > back:
                kept.append((event_at, units - back))
        self.events = kept

    def retry(self, now, cost):
        live = self.live(now)
        excess = sum(units for _, units in live) + cost - self.count
        for at, units in live:
            excess -= units
            if excess <= 0:
                return span_up(at + self.period - now)
        raise AssertionError('a cost up to the count fits into an empty log')

    def reset(self, now):
        live = self.live(now)
        return span_up(live[-1][0] + self.period - now) if live else 0


class SlidingCounter(Window):
    """The state is the usage of each sub-window, by index, and the newest index. Only the newest segments + 1 are kept,
    without zeros. An empty counter is as new."""

    def __init__(self, count, period, count_all=False, segments=1):
        super().__init__(count, period, count_all)
        self.segments = segments
        self.width = period // segments
        self.counted = {}
        self.newest = 0

    def notice(self, now):
        if self.counted and self.newest * self.width - now > STEP_BACK_MAX:
            self.newest = now // self.width
            self.counted = {self.newest: min(self.count, sum(self.counted.values()))}

    def current(self, now):
        """(index, elapsed) of the sub-window at now."""
        index, elapsed = divmod(now, self.width)
        return (self.newest, 0) if self.counted and index < self.newest else (index, elapsed)

    def live(self, index):
        """Sub-windows that count while index is the current one, oldest first."""
        return sorted(item for item in self.counted.items() if item[0] >= index - self.segments)

    def estimate(self, now):
        index, elapsed = self.current(now)
        total = 0
        for i, counted in self.counted.items():
            if i > index - self.segments:
                total += counted
            elif i == index - self.segments:
                total += counted * (self.width - elapsed) // self.width
        return total

    def room(self, now):
        return max(0, self.count - self.estimate(now))

    def charge(self, now, cost):
        index = self.current(now)[0]
        self.counted = dict(self.live(index))
        self.counted[index] = min(self.counted.get(index, 0) + cost, MAX)
        self.newest = index

    def count_denied(self, now, cost):
        if cost:
            self.charge(now, cost)

    def give(self, now, n):
        for i, counted in reversed(self.live(self.current(now)[0])):
            back = min(n, counted)
            n -= back
            self.counted[i] -= back
            if not self.counted[i]:
                del self.counted[i]

    def still_charged(self, now, at, cost):
        return dict(self.live(self.current(now)[0])).get(at // self.width, 0)

    def give_charged(self, now, at, n):
        index = at // self.width
        self.counted[index] -= n
        if not self.counted[index]:
            del self.counted[index]

    def retry(self, now, cost):
        """Sub-window i is the oldest `segments` after its own time. Its weight then falls from full to zero while the
        newer ones stay. The cost fits when floor(counted * left / width) <= spare."""
        live = self.live(self.current(now)[0])
        newer = sum(counted for _, counted in live)
        for i, counted in live:
            newer -= counted
            spare = self.count - cost - newer
            if spare >= 0:
                left = ceil(Fraction((spare + 1) * self.width, counted)) - 1
                return span_up((i + self.segments + 1) * self.width - left - now)
        raise AssertionError('a cost up to the count fits into an empty counter')


class Refused:
    """An invalid limit: it answers error to everything."""

    def take(self, now, cost):
        return REFUSED

    peek = upto = refund = take

    def undo(self, now, n, at, cost):
        return REFUSED

    def reserve(self, now, cost):
        return REFUSED, Reservation(self, 0, now)

    def cancel(self, now, reservation):
        return REFUSED

    def set(self, now, count=None, period=None, burst=None):
        return REFUSED


def make_limit(algorithm, count, period, burst=None, refill='smooth', align='clock', count_all=False, segments=1,
               initial=None):
    """A new limit; Refused if it is invalid."""
    if algorithm in ('token_bucket', 'leaky_bucket'):
        kind = SmoothBucket if algorithm == 'token_bucket' else LeakyBucket
        if refill == 'interval':
            kind = IntervalBucket
        burst = count if burst is None else burst
        return Refused() if kind.refuses(count, period, burst) else kind(count, period, burst, initial)
    kind = {'fixed_window': FixedWindow, 'sliding_log': SlidingLog, 'sliding_counter': SlidingCounter}[algorithm]
    if kind.refuses(count, period):
        return Refused()
    if kind is SlidingCounter:
        if not 1 <= segments <= SEGMENTS_MAX or period % segments:
            return Refused()
        return kind(count, period, count_all, segments)
    if kind is FixedWindow:
        return kind(count, period, count_all, align == 'first')
    return kind(count, period, count_all)


def take_all(now, limits, costs):
    """Decides several limits together, one cost each: all are charged or none."""
    claims = {}
    for limit, cost in zip(limits, costs, strict=True):
        claims[limit] = claims.get(limit, 0) + cost
    if any(isinstance(limit, Refused) for limit in claims):
        return REFUSED
    verdicts = [limit.verdict(now, cost) for limit, cost in claims.items()]
    if set(verdicts) == {ALLOW}:
        answers = [limit.take(now, cost) for limit, cost in claims.items()]
        joined = _join(ALLOW, answers)
    else:
        for limit, cost in claims.items():
            if limit.count_all:
                limit.count_denied(now, cost)
        answers = [limit.peek(now, cost) for limit, cost in claims.items()]
        joined = _join(NEVER if NEVER in verdicts else DENY, answers)
    return joined._replace(by=limits.index(list(claims)[_decider(verdicts, answers)]))


def _decider(verdicts, answers):
    """Which claim decided. A limit that allowed does not deny because it counted the attempt."""
    places = range(len(answers))
    if NEVER in verdicts:
        return verdicts.index(NEVER)
    if DENY in verdicts:
        return max((i for i in places if verdicts[i] == DENY), key=lambda i: answers[i].retry)
    return min(places, key=lambda i: answers[i].remaining)


def _join(verdict, answers):
    """The smallest remaining and the longest durations. A reset is stated only if each limit has one."""
    return Answer(
        verdict,
        min(answer.remaining for answer in answers),
        max(answer.retry or 0 for answer in answers) if verdict == DENY else None,
        None if any(answer.reset is None for answer in answers) else max(answer.reset for answer in answers),
        max((answer.delay for answer in answers if answer.delay is not None), default=None)
        if verdict == ALLOW else None)
