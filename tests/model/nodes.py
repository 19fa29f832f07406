"""nodes.py: random traces of several nodes that share a key in Redis, with the model's answers.

    nodes.py --algorithm A --steps N --seed S

Each node has its own plan of the limit, and the instant at which the plan was set. The plan that was set last decides
for all nodes (docs/internals/redis.md). With the algorithm `mixed`, nodes have plans of different algorithms. Prints,
until there are N requests:

    key                                         a new key, and new nodes
    plan NODE SET_AT ALGORITHM COUNT PERIOD BURST INTERVAL FIRST ALL SEGMENTS
    ask NODE NOW OPERATION COST VERDICT LIMIT REMAINING RETRY RESET DELAY GRANTED        -: not compared

tests/store/redis/redis_nodes.c plays them. This program itself checks traces with only two plans: they never allow more
than the larger of the two would have allowed."""

import argparse
import random
import sys

import generate
import weir_model
from weir_model import ALLOW

NODES = 'abc'
BUCKETS = ('token_bucket', 'leaky_bucket', 'interval')
WINDOWS = ('fixed_window', 'sliding_log', 'sliding_counter', 'segments')
MARGIN = 2 * weir_model.STEP_BACK_MAX
DENIED_MOST = 10**9  # for counters with count=all: Redis stops counting at 2^49


class Plan:
    """The numbers of a limit, and when they were set."""

    def __init__(self, kind, count, period, burst, set_at=0, first=False, counts_all=False, segments=1):
        self.kind, self.count, self.period, self.burst, self.set_at = kind, count, period, burst, set_at
        self.first, self.counts_all, self.segments = first, counts_all, segments

    @property
    def algorithm(self):
        return {'interval': 'token_bucket', 'segments': 'sliding_counter'}.get(self.kind, self.kind)

    def make(self):
        if self.kind in BUCKETS:
            return weir_model.make_limit(self.algorithm, self.count, self.period, self.burst,
                                         refill='interval' if self.kind == 'interval' else 'smooth')
        return weir_model.make_limit(self.algorithm, self.count, self.period, align='first' if self.first else 'clock',
                                     count_all=self.counts_all, segments=self.segments)

    def can_follow(self, before):
        """Whether a key is converted to this plan; otherwise it starts over."""
        if self.kind in BUCKETS:
            return self.kind == before.kind
        return ((self.algorithm, self.period, self.segments, self.first, self.counts_all)
                == (before.algorithm, before.period, before.segments, before.first, before.counts_all))

    def text(self, node):
        return (f'plan {node} {self.set_at} {self.algorithm} {self.count} {self.period} {self.burst} '
                f'{int(self.kind == "interval")} {int(self.first)} {int(self.counts_all)} {self.segments}\n')


def raw(limit):
    """What a store would keep of a limit's state; None: full, nothing to keep."""
    if isinstance(limit, weir_model.SmoothBucket):
        return limit.full_at or None
    if isinstance(limit, weir_model.IntervalBucket):
        return (limit.anchor, limit.missing) if limit.missing else None
    if isinstance(limit, weir_model.FixedWindow):
        return (limit.began, limit.used) if limit.used else None
    if isinstance(limit, weir_model.SlidingLog):
        return list(limit.events) or None
    return (limit.newest, dict(limit.counted)) if limit.counted else None


class Key:
    """A key in the store: its state, the plan that wrote it, and when a bucket was last used."""

    def __init__(self):
        self.limit = self.plan = None
        self.set_at = self.used_at = 0

    def start(self, plan):
        key = Key()
        key.limit, key.plan, key.set_at = plan.make(), plan, plan.set_at
        return key

    def convert(self, plan, now):
        """Converts at the time of the change, or now if the key was used since."""
        if plan.kind in BUCKETS:
            as_of = plan.set_at if self.used_at <= plan.set_at < now else now
            self.limit.set(as_of, plan.count, plan.period, plan.burst)
            self.used_at = as_of
        else:
            self.limit.set(now, plan.count)
        self.plan, self.set_at = plan, plan.set_at

    def ask(self, plan, now, operation, cost):
        """Returns (key, limit that decided, answer). The caller continues with the returned key."""
        key, is_new = self, False
        if self.limit is None:
            key = self.start(plan)
        elif plan.set_at > self.set_at:
            if plan.can_follow(self.plan):
                self.convert(plan, now)
            else:
                key, is_new = self.start(plan), True
        before = raw(key.limit)
        key.limit.notice(now)
        noticed = raw(key.limit) != before
        answer = getattr(key.limit, operation)(now, cost)
        is_used = operation == 'refund' or (answer.verdict == ALLOW and operation != 'peek' and
                                            cost > 0 and answer.granted != 0)
        if noticed or is_used:
            key.used_at = now
        most = key.limit.most
        if raw(key.limit) is None:
            return (self if is_new and not is_used else Key()), most, answer
        return key, most, answer


# Random choices.

def draw_plan(trace, kind, like=None):
    """A random plan. With `like`, it mostly keeps what must not change for a conversion."""
    if like and trace.random() < 0.9 and kind not in BUCKETS:
        count = max(1, min(like.count + trace.below(9) - 4, 2 * like.count)) if trace.random() < 0.5 else \
            1 + trace.below(2 * like.count)
        return Plan(kind, count, like.period, count, 0, like.first, like.counts_all, like.segments)
    while True:
        _, count, period, burst = trace.rate()
        if kind == 'sliding_log':
            count = min(count, generate.LOG_COUNT_MOST)
        segments = trace.one_of((2, 3, 5, 8)) if kind == 'segments' else 1
        plan = Plan(kind, count, period * segments, burst if kind in BUCKETS else count, 0,
                    kind == 'fixed_window' and trace.random() < 0.5,
                    kind in WINDOWS and trace.random() < 0.3, segments)
        if like and kind in BUCKETS and trace.random() < 0.5:
            plan.count, plan.period = like.count, like.period
        if not isinstance(plan.make(), weir_model.Refused):
            return plan


def draw_instant(trace, plans):
    """Mostly now; also long ago, a little ahead, another plan's instant, or 0 for never."""
    u = trace.random()
    if u < 0.45:
        at = trace.now
    elif u < 0.75:
        at = trace.now - trace.below(min(2 * trace.full_span + 2000, trace.now + 1))
    elif u < 0.85:
        at = trace.one_of(list(plans.values())).set_at if plans else 0
    elif u < 0.95:
        at = trace.now + trace.below(10_000_000)
    else:
        at = 0
    at = at // trace.grain * trace.grain
    return min(max(at, 0), trace.latest)


class Check:
    """For two plans without refunds, while time goes forward: no more is allowed than the larger plan would allow."""

    def __init__(self, plans):
        self.plans, self.taken = list(plans), []
        self.kind = self.plans[0].kind if len({plan.kind for plan in self.plans}) == 1 else None

    def note(self, now, units):
        self.taken.append((now, units))
        if self.kind in ('token_bucket', 'leaky_bucket'):
            rate = max(weir_model.Fraction(plan.count, plan.period) for plan in self.plans)
            self.hold(now, lambda at: max(plan.burst for plan in self.plans) + rate * (now - at))
        elif self.kind == 'interval':
            count, period = max(p.count for p in self.plans), min(p.period for p in self.plans)
            self.hold(now, lambda at: max(p.burst for p in self.plans) + count * ((now - at) // period + 1))
        elif self.kind == 'sliding_log' and self.plans[0].period == self.plans[1].period:
            self.hold(now, lambda at: max(p.count for p in self.plans) if now - at < self.plans[0].period else None)

    def hold(self, now, most):
        total = 0
        for at, units in reversed(self.taken):
            total += units
            bound = most(at)
            if bound is not None and total > bound:
                raise AssertionError(f'{total} units from {at} to {now}, above {bound}')


def play(trace, kind):
    """Plays one key."""
    trace.lines.append('key\n')
    first_kind = trace.one_of(BUCKETS + WINDOWS) if kind == 'mixed' else kind
    plans = {}
    base = draw_plan(trace, first_kind)
    trace.scale(base.count, base.period, base.burst)
    trace.begin()
    trace.set_now(min(trace.now, trace.latest - MARGIN))
    two = trace.random() < 0.4 and kind != 'mixed'
    names = NODES[:2 if two else 2 + trace.below(2)]
    for name in names:
        of_kind = trace.one_of(BUCKETS + WINDOWS) if kind == 'mixed' and trace.random() < 0.3 else first_kind
        plan = draw_plan(trace, of_kind, base if of_kind == first_kind else None) if plans else base
        plan.set_at = draw_instant(trace, plans)
        plans[name] = plan
        trace.lines.append(plan.text(name))
    check = Check(plans.values()) if two and plans['a'].can_follow(plans['b']) else None
    key = Key()
    counts_denied = False
    for _ in range(20 + trace.below(30)):
        before = trace.now
        now = trace.move()
        if check and now < before:
            trace.set_now(before)
            now = before
        u = trace.random()
        if u < 0.08 and not two:
            name = trace.one_of(names)
            of_kind = trace.one_of(BUCKETS + WINDOWS) if kind == 'mixed' and trace.random() < 0.3 else plans[name].kind
            plan = draw_plan(trace, of_kind, plans[name] if of_kind == plans[name].kind else None)
            if trace.random() < 0.3:  # the same numbers, set again
                plan = Plan(**vars(plans[name]))
            plan.set_at = draw_instant(trace, plans)
            plans[name] = plan
            trace.lines.append(plan.text(name))
        name = trace.one_of(names)
        counts_denied |= any(plan.counts_all and plan.algorithm == 'sliding_counter' for plan in plans.values())
        cost = trace.cost(plans[name].burst, trace.last.remaining)
        if counts_denied:
            cost = min(cost, DENIED_MOST)
        operation = 'take' if u < 0.70 else 'peek' if u < 0.82 else 'upto' if u < 0.93 or check else 'refund'
        key, most, answer = key.ask(plans[name], now, operation, cost)
        trace.last = answer
        if check and answer.verdict == ALLOW and operation != 'peek':
            check.note(now, cost if answer.granted is None else answer.granted)
        fields = [answer.remaining, answer.retry, answer.reset, answer.delay, answer.granted]
        told = ' '.join('-' if field is None else str(field) for field in fields)
        trace.lines.append(f'ask {name} {now} {operation} {cost} {answer.verdict} {most} {told}\n')
        trace.rows += 1


def main():
    parser = argparse.ArgumentParser(description='Prints random traces of several nodes with the model\'s answers.')
    parser.add_argument('--algorithm', required=True, choices=BUCKETS + WINDOWS + ('mixed',))
    parser.add_argument('--steps', required=True, type=int, metavar='N', help='how many requests, at least')
    parser.add_argument('--seed', required=True, type=int, metavar='S')
    args = parser.parse_args()
    generate.Trace.grain, generate.Trace.latest, generate.Trace.ends = (
        generate.REDIS_GRAIN, generate.REDIS_TIME_MAX, generate.REDIS_ENDS)
    dice = random.Random(f'nodes {args.algorithm} {args.seed}')
    rows = 0
    while rows < args.steps:
        trace = generate.Trace(dice)
        play(trace, args.algorithm)
        rows += trace.rows
        sys.stdout.write(''.join(trace.lines))


if __name__ == '__main__':
    main()
