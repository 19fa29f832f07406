"""generate.py: random traces with the model's answers, as vectors.

    generate.py --algorithm A --steps N --seed S [--redis]

Prints vectors in the grammar of tests/vectors/README.md until it has printed N `at` rows. The same arguments print the
same vectors. Limits, times and costs are chosen where bugs are likely: at the end of a wait and one nanosecond before,
around what is left, at 60 s back and 1 ns more, and near the limits of 32 and 64 bits. Choices use plain integers and
floats; every answer is the model's. With --redis, times are whole microseconds, and the limits are those of Redis's
numbers."""

import argparse
import random
import sys
from math import ceil

import weir_model
from weir_model import ALLOW, MAX, STEP_BACK_MAX

SECOND = 10**9
NOW_2026 = 1_790_000_000 * SECOND
REALISTIC = [(7, 60 * SECOND), (1000, 3600 * SECOND), (10, SECOND), (100, SECOND), (1, SECOND), (3, 10 * SECOND),
             (60, 60 * SECOND), (5000, 86400 * SECOND), (1000000, SECOND), (20, 250_000_000), (600, 600 * SECOND)]
PRIMES = [2, 3, 5, 7, 11, 13, 31, 97, 101, 997, 7919, 104729, 1000003, 15485863]
PRIME_PERIODS = [7, 97, 997, 7919, 1000003, 15485863, 1000000007, 4294967291, 999999999989]
ENDS = [2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, MAX - 1, MAX]
SEGMENTS = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 60, 64]
END_SEGMENTS = {MAX: (3, 5, 15, 17, 255), 2**63: (2, 4, 8, 64), 2**32: (2, 16, 64), 2**32 - 1: (3, 17, 255),
                10**18: (2, 10, 1000)}
REDIS_GRAIN = 1000
REDIS_TIME_MAX = 2**52 * REDIS_GRAIN
REDIS_ENDS = [2**32 - 1, 2**32, 2**32 + 1, 2**48 - 2, 2**48 - 1, 2**53 - 1, 2**53 + 1]
LOG_COUNT_MOST = 2000
LOG_COUNT_EVER = 200000
CHUNK = 1 << 20


class Trace:
    """One vector in the making: the random choices, the clock and the last answer."""
    grain, latest, ends = 1, MAX, ENDS

    def __init__(self, dice):
        self.dice = dice
        self.random = dice.random
        self.lines = []
        self.rows = 0
        self.now = 0
        self.last = weir_model.REFUSED
        self.token_time = self.period = self.full_span = 1
        self.may_start_low = True

    # Random choices.

    def below(self, n):
        """0 to n - 1, for n of any size. Large numbers come from a float, whose gaps do no harm here."""
        return min(int(self.random() * n), n - 1)

    def one_of(self, choices):
        return choices[int(self.random() * len(choices))]

    # Limits.

    def rate(self):
        """A profile and (count, period, burst)."""
        u = self.random()
        if u < 0.40:
            count = 1 + self.below(50)
            period = (1 + self.below(1000)) * (1 if self.grain == 1 else self.one_of((1, 37, self.grain)))
            return 'tiny', count, period, self.one_of((count, 1 + self.below(50)))
        if u < 0.65:
            count, period = self.one_of(REALISTIC)
            return 'realistic', count, period, self.one_of((count, 1 + self.below(2 * count), 1 + self.below(20)))
        if u < 0.80:
            return 'prime', self.one_of(PRIMES), self.one_of(PRIME_PERIODS), self.one_of(PRIMES)
        return 'end', self.end_or_small(), self.end_or_small(), self.end_or_small()

    def end_or_small(self):
        return self.one_of(self.ends) if self.random() < 0.6 else 1 + self.below(1000)

    def smooth_rate(self):
        """A rate that a smooth bucket can have."""
        while True:
            profile, count, period, burst = self.rate()
            if not weir_model.SmoothBucket.refuses(count, period, burst):
                return profile, count, period, burst

    def scale(self, count, period, most):
        """Sets the scale of the times that follow."""
        self.period = period
        self.token_time = max(1, period // count)
        self.full_span = max(1, most * period // count)

    # Times.

    def begin(self):
        u = self.random()
        if u < 0.15:
            self.now = 0
        elif u < 0.50:
            self.now = self.below(4 * self.period)
        elif u < 0.85:
            self.now = NOW_2026 + self.below(10**17)
        elif u < 0.92:
            self.now = self.one_of((2**32, 2**63)) + self.below(2 * self.period) - self.period
        else:
            self.now = self.latest - self.below(4 * self.period)
        self.set_now(self.now)

    def move(self):
        """Moves the clock: mostly forward to where something happens, sometimes back."""
        u, now, last = self.random(), self.now, self.last
        if u < 0.25:
            return now
        if u < 0.46:
            now += self.below(2 * self.token_time) + 1
        elif u < 0.66 and (last.retry or last.delay):
            now += (last.retry or last.delay) - (1 if u < 0.54 else 0)
        elif u < 0.72 and last.reset:
            now += last.reset - (1 if u < 0.68 else 0)
        elif u < 0.84:
            now += self.below(self.period) + 1
        elif u < 0.90:
            now += self.below(2 * self.full_span + 2)
        elif u < 0.92:
            now += self.period * (1 + self.below(3))
        elif u < 0.94:
            now -= self.below(min(STEP_BACK_MAX, 2 * self.period)) + 1
        elif u < 0.955:
            now -= self.one_of((1, STEP_BACK_MAX, STEP_BACK_MAX + 1, self.below(STEP_BACK_MAX)))
        elif u < 0.975:
            now -= self.one_of((STEP_BACK_MAX + 2 + self.below(4 * self.period), self.below(now + 1), self.period))
        elif u < 0.98:
            now = self.one_of((0, 2**63, MAX, MAX - self.below(2 * self.period + 1), NOW_2026))
        if now >= self.latest and self.random() < 0.4:
            now = self.one_of((NOW_2026, self.now - self.period, self.now - STEP_BACK_MAX, self.below(self.period)))
        self.set_now(now)
        return self.now

    def set_now(self, now):
        """Rounds to the grain, up or down."""
        if now % self.grain:
            now += self.one_of((0, self.grain)) - now % self.grain
        self.now = min(max(now, 0), self.latest)

    # Costs.

    def cost(self, most, remaining):
        u = self.random()
        if u < 0.50:
            return 1 + int(u * 2 * min(most, 5))
        if u < 0.68:
            return 1 + self.below(most)
        if u < 0.80:
            return min(max((remaining or 0) + int(u * 1000) % 3 - 1, 0), MAX)
        if u < 0.87:
            return most - (1 if u < 0.83 else 0)
        if u < 0.91:
            return 0
        if u < 0.95:
            return min(most + 1 + (self.below(most) if u < 0.93 else 0), MAX)
        if u < 0.965:
            return self.one_of(self.ends)
        return min(1 + self.below(10), MAX)

    # Rows.

    def print_limit(self, name, algorithm, rate, **options):
        text = ''.join(f' {key}={value}' for key, value in options.items() if value is not None)
        self.lines.append(f'limit {name} algorithm={algorithm} rate={rate}{text}\n')

    def print_row(self, request, answer):
        self.last = answer
        verdict, remaining, retry, reset, delay, granted, by = answer
        text = f'at {self.now} {request} -> {verdict}'
        if remaining is not None:
            text += f' remaining={remaining}'
        if retry is not None:
            text += f' retry={retry}'
        if reset is not None:
            text += f' reset={reset}'
        if delay is not None:
            text += f' delay={delay}'
        if granted is not None:
            text += f' granted={granted}'
        if by is not None:
            text += f' by={by}'
        self.lines.append(text + '\n')
        self.rows += 1


# One limit. Each maker prints the limit line and returns (name, limit); the shared play does the rest.

def make_token_bucket(trace):
    _, count, period, burst = trace.smooth_rate()
    return make_bucket(trace, 'tb', 'token_bucket', count, period, burst, initial=maybe_initial(trace, burst))


def make_interval(trace):
    _, count, period, burst = trace.rate()
    return make_bucket(trace, 'iv', 'token_bucket', count, period, burst, refill='interval',
                       initial=maybe_initial(trace, burst))


def make_leaky_bucket(trace):
    _, count, period, burst = trace.smooth_rate()
    return make_bucket(trace, 'lb', 'leaky_bucket', count, period, burst)


def make_bucket(trace, name, algorithm, count, period, burst, **options):
    trace.scale(count, period, burst)
    trace.print_limit(name, algorithm, f'{count}/{period}', burst=burst, **options)
    return name, weir_model.make_limit(algorithm, count, period, burst, **options)


def maybe_initial(trace, burst):
    if trace.may_start_low and trace.random() < 0.2:
        return trace.one_of((0, burst, burst - 1, trace.below(burst + 1)))
    return None


def make_fixed_window(trace):
    _, count, period, _ = trace.rate()
    align = trace.one_of(('first', 'clock'))
    return make_window(trace, 'fw', 'fixed_window', count, period, align=align)


def make_sliding_log(trace):
    _, count, period, _ = trace.rate()
    most = LOG_COUNT_EVER if trace.random() < 0.03 else LOG_COUNT_MOST
    return make_window(trace, 'sl', 'sliding_log', min(count, most), period)


def make_sliding_counter(trace):
    _, count, period, _ = trace.rate()
    return make_window(trace, 'sc', 'sliding_counter', count, period)


def make_segments(trace):
    profile, count, width, _ = trace.rate()
    if profile == 'end':
        period = trace.one_of(tuple(END_SEGMENTS))
        segments = trace.one_of(END_SEGMENTS[period])
    else:
        segments = 1000 if trace.random() < 0.05 else trace.one_of(SEGMENTS)
        period = width if profile == 'realistic' and width % segments == 0 else width * segments
    return make_window(trace, 'sc', 'sliding_counter', count, period, segments=segments)


def make_window(trace, name, algorithm, count, period, **options):
    count_all = trace.random() < 0.3
    trace.scale(count, period, count)
    trace.print_limit(name, algorithm, f'{count}/{period}', **options, count='all' if count_all else None)
    return name, weir_model.make_limit(algorithm, count, period, count_all=count_all, **options)


def change_bucket(trace, name, limit):
    """A `set` row that changes the rate, the burst or both. Some are rejected."""
    u = trace.random()
    count = period = burst = None
    if u < 0.10:
        count, period, burst = trace.one_of(((0, limit.period, None), (limit.count, 0, None), (None, None, 0)))
    else:
        draw = trace.rate if isinstance(limit, weir_model.IntervalBucket) else trace.smooth_rate
        _, count, period, burst = draw()
        if u < 0.40:
            count = period = None
        elif u < 0.70:
            burst = None
        elif u < 0.85:
            period = limit.period
        if trace.random() < 0.3 and burst is not None:
            burst = min(max(limit.most + trace.below(5) - 2, 1), MAX)
        if limit.refuses(count or limit.count, period or limit.period, burst or limit.most):
            return False
    changes = ('' if count is None else f' rate={count}/{period}') + ('' if burst is None else f' burst={burst}')
    answer = limit.set(trace.now, count, period, burst)
    if answer.verdict == ALLOW:
        trace.scale(limit.count, limit.period, limit.most)
    trace.print_row(f'set {name}{changes}', answer._replace(reset=None))
    return True


def change_window(trace, name, limit):
    """A `set` row. Only the count may change; some are rejected."""
    u = trace.random()
    count, period = limit.count, limit.period
    if u < 0.06:
        count = 0
    elif u < 0.10:
        period = trace.one_of((0, period + 1 if period < MAX else 1))
    elif u < 0.40:
        count = min(max(count + trace.below(5) - 2, 1), MAX)
    else:
        count = 1 + trace.below(min(2 * count, MAX))
    if isinstance(limit, weir_model.SlidingLog):
        count = min(count, LOG_COUNT_MOST)
    answer = limit.set(trace.now, count, period)
    trace.scale(limit.count, limit.period, limit.count)
    trace.print_row(f'set {name} rate={count}/{period}', answer._replace(reset=None))
    return True


def play_one(trace, make):
    name, limit = make(trace)
    change = change_bucket if isinstance(limit, weir_model.Bucket) else change_window
    may_change = trace.random() < 0.5
    trace.begin()
    for _ in range(20 + trace.below(41)):
        now = trace.move()
        u = trace.random()
        if u < 0.033 and may_change and change(trace, name, limit):
            continue
        cost = trace.cost(limit.most, trace.last.remaining)
        if u < 0.70:
            trace.print_row(f'take {name} {cost}', limit.take(now, cost))
        elif u < 0.82:
            trace.print_row(f'peek {name} {cost}', limit.peek(now, cost))
        elif u < 0.92:
            trace.print_row(f'upto {name} {cost}', limit.upto(now, cost))
        else:
            trace.print_row(f'refund {name} {cost}', limit.refund(now, cost))


# Reservations.

def play_reserve(trace, make):
    """Reservations queue up and are cancelled in time, late and twice. No debt reaches beyond 2^64 ns."""
    name, limit = make(trace)
    may_change = trace.random() < 0.5
    trace.begin()
    made = []
    for row in range(20 + trace.below(41)):
        if owes_until(limit, trace.now, 0) >= MAX:
            break  # all instants beyond the maximum look the same, so reservations cannot be told apart
        now = trace.move()
        u = trace.random()
        if u < 0.033 and may_change and change_in_debt(trace, name, limit, made):
            continue
        if u < 0.20 and made:
            tag, reservation, _ = made[-1 - min(trace.below(len(made)), trace.below(len(made)))]
            limit.cancel(now, reservation)
            trace.print_row(f'cancel tag={tag}', weir_model.Answer(ALLOW))
            continue
        cost = trace.cost(limit.most, trace.last.remaining)
        if u < 0.55 and owes_until(limit, now, cost) < MAX:
            answer, reservation = limit.reserve(now, cost)
            if answer.verdict == ALLOW:
                made.append((f'r{row}', reservation, (limit.count, limit.period)))
            trace.print_row(f'reserve {name} {cost} tag=r{row}', answer)
        elif u < 0.80:
            trace.print_row(f'take {name} {cost}', limit.take(now, cost))
        elif u < 0.87:
            trace.print_row(f'peek {name} {cost}', limit.peek(now, cost))
        elif u < 0.93:
            trace.print_row(f'upto {name} {cost}', limit.upto(now, cost))
        else:
            trace.print_row(f'refund {name} {cost}', limit.refund(now, cost))


def owes_until(limit, now, cost):
    if isinstance(limit, weir_model.IntervalBucket):
        intervals = (limit.missing + cost) // limit.count + 1
        return max(limit.anchor, now) + intervals * limit.period
    return max(limit.full_at, now) + limit.span_of(cost)


def change_in_debt(trace, name, limit, made):
    """A `set` row that does not make a debt endless. The time of a reservation is exact in units of its rate, so
    reservations from before a change of the rate are not cancelled after it."""
    now, count, period = trace.now, limit.count, limit.period
    owed = owes_until(limit, now, 0) - now
    if owed <= limit.most * period // count:
        done = change_bucket(trace, name, limit)
    else:
        if trace.random() < 0.5 and owed < 2**60 and now < 2**62:
            count, period = count * (1 + trace.below(3)), period * (1 + trace.below(3))
        burst = min(max(limit.most + trace.below(7) - 2, 1), MAX)
        if limit.refuses(count, period, burst):
            return False
        answer = limit.set(now, count, period, burst)
        trace.scale(limit.count, limit.period, limit.most)
        trace.print_row(f'set {name} rate={count}/{period} burst={burst}', answer._replace(reset=None))
        done = True
    made[:] = [entry for entry in made if entry[2] == (limit.count, limit.period)]
    return done


# Holds: charges of which a part is undone later.

class Charge:
    """When and how much was charged, how much was given back, and when its window or interval began."""
    __slots__ = ('at', 'cost', 'given', 'actual', 'began')

    def __init__(self, at, cost, began):
        self.at, self.cost, self.given, self.actual, self.began = at, cost, 0, cost, began


def play_holds(trace, _):
    """Every charge may be settled once, soon or late, with all, some or nothing of it used. If no clock steps back and
    the limit is not changed, the state is then as if only the used part had been charged."""
    trace.may_start_low = False
    name, limit = trace.one_of(HELD)(trace)
    change = change_bucket if isinstance(limit, weir_model.Bucket) else change_window
    is_steady = trace.random() < 0.6
    charges, open_holds = [], []
    trace.begin()
    for _ in range(20 + trace.below(41)):
        before = trace.now
        trace.move()
        if is_steady:
            trace.set_now(max(before, trace.now))
        now = trace.now
        u = trace.random()
        if u < 0.03 and not is_steady and change(trace, name, limit):
            continue
        if u < 0.45 and open_holds:
            settle(trace, name, limit, open_holds)
        else:
            cost = trace.cost(limit.most, trace.last.remaining)
            op = 'take' if u < 0.9 else 'upto'
            answer = getattr(limit, op)(now, cost)
            trace.print_row(f'{op} {name} {cost}', answer)
            charged = answer.granted if op == 'upto' else cost if answer.verdict == ALLOW else 0
            if charged:
                charges.append(Charge(now, charged, beginning_of(limit)))
                open_holds.append(charges[-1])
        if is_steady and not limit.count_all:
            try:
                check_never_over(limit, charges, now)
            except AssertionError as error:
                raise AssertionError(f'{"".join(trace.lines)}{error}') from None


def settle(trace, name, limit, open_holds):
    """Undoes the unused part of a charge, mostly of one of the newest."""
    charge = open_holds.pop(-1 - min(trace.below(len(open_holds)), trace.below(len(open_holds))))
    charge.actual = trace.one_of((0, 0, charge.cost - 1, trace.below(charge.cost + 1)))
    unused = charge.cost - charge.actual
    answer = limit.undo(trace.now, unused, charge.at, charge.cost)
    charge.given = limit.given
    trace.print_row(f'undo {name} {unused} of={charge.cost} charged={charge.at}', answer)
    if not charge.given <= (0 if limit.count_all else unused):
        raise AssertionError(f'{"".join(trace.lines)}more was given back than was unused')


def beginning_of(limit):
    if isinstance(limit, weir_model.IntervalBucket):
        return limit.anchor
    return limit.began if isinstance(limit, weir_model.FixedWindow) else None


def check_never_over(limit, charges, now):
    """The charges minus refunds fit the limit one by one, and leave exactly the room that the limit has: no undo gave
    others anything they could not have had. The actual costs alone do not exceed the limit either."""
    most = room_after([(charge.at, charge.cost - ceil(charge.given), charge.began) for charge in charges], limit, now)
    parts = sum(charge.given != ceil(charge.given) for charge in charges)  # each is less than one unit
    if not most - parts <= limit.room(now) <= most:
        raise AssertionError(f'at {now} the room differs from the charges minus the refunds')
    room_after([(charge.at, charge.actual, charge.began) for charge in charges], limit, now)


def room_after(charges, limit, now):
    """Charges a new limit like this one; raises if a charge does not fit. Windows and intervals begin when they began
    in the trace, because their first request was allowed even if nothing of it was used."""
    if isinstance(limit, weir_model.IntervalBucket):
        rest = refill(charges, limit, now)
    elif isinstance(limit, weir_model.FixedWindow):
        rest = turn(charges, limit, now)
    else:
        fresh = fresh_like(limit)
        for at, cost, _ in charges:
            if fresh.take(at, cost).verdict != ALLOW:
                raise AssertionError(f'over the limit at {at}')
        fresh.notice(now)
        return fresh.room(now)
    return limit.most - rest


def refill(charges, limit, now):
    """How many tokens are missing at now. Refills are at began + k * period, with `began` of the newest charge."""
    missing = since = began = 0
    for at, cost, next_began in [*charges, (now, 0, None)]:
        refills = (at - began) // limit.period - (since - began) // limit.period
        missing = max(0, missing - refills * limit.count) + cost
        if missing > limit.most:
            raise AssertionError(f'over the limit at {at}')
        since, began = at, next_began
    return missing


def turn(charges, limit, now):
    """The usage in the window at now."""
    used, began = 0, None
    for at, cost, next_began in charges:
        used = cost + (used if next_began == began else 0)
        if used > limit.most:
            raise AssertionError(f'over the limit at {at}')
        began = next_began
    return used if began is not None and now < began + limit.period else 0


def fresh_like(limit):
    if isinstance(limit, weir_model.SmoothBucket):
        return type(limit)(limit.count, limit.period, limit.most)
    if isinstance(limit, weir_model.SlidingCounter):
        return weir_model.SlidingCounter(limit.count, limit.period, segments=limit.segments)
    return weir_model.SlidingLog(limit.count, limit.period)


# Several limits.

def play_multi(trace, _):
    makers = [make_token_bucket, make_interval, make_leaky_bucket, make_fixed_window, make_sliding_log,
              make_sliding_counter, make_segments]
    limits = {}
    for name in 'abcd'[:2 + trace.below(3)]:
        trace_one = Trace(trace.dice)
        trace_one.may_start_low = False
        _, limit = trace.one_of(makers)(trace_one)
        words = trace_one.lines[0].split(' ')
        trace.lines.append(' '.join([words[0], name, *words[2:]]))
        limits[name] = limit
    names = list(limits)
    if trace.random() < 0.03:
        trace.lines.append('limit x algorithm=token_bucket rate=0/1000 burst=1\n')
        limits['x'] = weir_model.make_limit('token_bucket', 0, 1000, 1)
    limit = limits[trace.one_of(names)]
    trace.scale(limit.count, limit.period, limit.most)
    trace.begin()
    for _ in range(20 + trace.below(41)):
        now = trace.move()
        u = trace.random()
        if u < 0.70:
            play_all(trace, now, limits, names)
            continue
        name = trace.one_of(names)
        limit = limits[name]
        cost = trace.cost(limit.most, trace.last.remaining)
        op = 'take' if u < 0.92 else 'peek' if u < 0.96 else 'refund'
        trace.print_row(f'{op} {name} {cost}', getattr(limit, op)(now, cost))
        trace.scale(limit.count, limit.period, limit.most)


def play_all(trace, now, limits, names):
    """An `all` row over some of the limits, in any order, now and then with a limit twice or a rejected one."""
    chosen = sorted(names, key=lambda _: trace.random())[:1 + trace.below(len(names))]
    if trace.random() < 0.08:
        chosen.append(trace.one_of(chosen))
    if 'x' in limits and trace.random() < 0.2:
        chosen.append('x')
    if trace.random() < 0.35:
        costs = [trace.cost(getattr(limits[name], 'most', 1), trace.last.remaining) for name in chosen]
        text = ','.join(map(str, costs))
    else:
        cost = trace.cost(min(getattr(limits[name], 'most', 1) for name in chosen), trace.last.remaining)
        costs, text = [cost] * len(chosen), str(cost)
    if sum(costs) > MAX and len(set(chosen)) < len(chosen):
        costs, text = [1] * len(chosen), '1'
    answer = weir_model.take_all(now, [limits[name] for name in chosen], costs)
    if answer.by is not None:
        answer = answer._replace(by=chosen[answer.by])
    trace.print_row(f'all {",".join(chosen)} {text}', answer)


HELD = [make_token_bucket, make_interval, make_leaky_bucket, make_fixed_window, make_sliding_log, make_sliding_counter,
        make_segments]

ALGORITHMS = {
    'token_bucket': (play_one, make_token_bucket),
    'interval': (play_one, make_interval),
    'leaky_bucket': (play_one, make_leaky_bucket),
    'fixed_window': (play_one, make_fixed_window),
    'sliding_log': (play_one, make_sliding_log),
    'sliding_counter': (play_one, make_sliding_counter),
    'segments': (play_one, make_segments),
    'reserve': (play_reserve, make_token_bucket),
    'reserve_interval': (play_reserve, make_interval),
    'holds': (play_holds, None),
    'multi': (play_multi, None),
}


def generate(algorithm, steps, seed, write):
    """Writes vectors until there are `steps` rows."""
    dice = random.Random(f'{algorithm} {seed}')
    play, make = ALGORITHMS[algorithm]
    rows = vectors = size = 0
    chunks = []
    while rows < steps:
        trace = Trace(dice)
        play(trace, make)
        rows += trace.rows
        text = f'vector m-{algorithm}-{seed}-{vectors} "random {algorithm}" source=model\n{"".join(trace.lines)}\n'
        vectors += 1
        chunks.append(text)
        size += len(text)
        if size >= CHUNK:
            write(''.join(chunks))
            chunks, size = [], 0
    write(''.join(chunks))


def main():
    parser = argparse.ArgumentParser(description='Prints random vectors with the model\'s answers.')
    parser.add_argument('--algorithm', required=True, choices=ALGORITHMS)
    parser.add_argument('--steps', required=True, type=int, metavar='N', help='how many `at` rows, at least')
    parser.add_argument('--seed', required=True, type=int, metavar='S')
    parser.add_argument('--redis', action='store_true', help='times and ends for Redis')
    args = parser.parse_args()
    if args.redis:
        Trace.grain, Trace.latest, Trace.ends = REDIS_GRAIN, REDIS_TIME_MAX, REDIS_ENDS
        weir_model.CLOCKS_DIFFER_MAX = 0  # Redis has one clock
    generate(args.algorithm, args.steps, args.seed, sys.stdout.write)


if __name__ == '__main__':
    main()
