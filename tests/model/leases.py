"""leases.py: random traces of several servers that lend units of a key from Redis, or push charges, with the model's answers.

    leases.py --algorithm A --steps N --seed S

A key is the limit of weir_model.py, and the lots that are lent: units by the instant at which their lease ends. Lent
units count as used now. When a lease ends, its units are charged as of that instant. Prints rows as nodes.py, and:

    lease NODE NOW OPERATION COST FIRST SECOND VERDICT LIMIT REMAINING RETRY RESET DELAY GRANTED

The operations are grant (duration, most), return (end), push (instant) and undo (instant, units of the charge). The
numbers are those of src/store/redis/redis_call.c. tests/store/redis/redis_nodes.c plays them.

The model is checked, too. After each row, what is left and what is lent are at most the limit. And in traces whose time
goes forward, servers spend what they hold as late as the lease allows, or earlier. Together with what the store has
allowed, that is never more than an exact limit allows in any interval. With pushes it is more by at most what the other
servers have not pushed."""

import argparse
import copy
import random
import sys
from math import ceil

import generate
import nodes
import weir_model
from weir_model import ALLOW, DENY, NEVER, Answer

US = 1000
LEASE_LONGEST = 10 * 10**9
LOTS_MOST = 8
TIME_MOST = 2**52 * US
COUNT_MOST, COUNTS_MOST = 2**48 - 1, 2**49 - 1  # in Redis; the second of all sub-windows
KINDS = ('token_bucket', 'leaky_police', 'interval', 'fixed_window', 'sliding_counter', 'segments', 'leaky_bucket',
         'sliding_log')

# What servers pushed explains more usage than the limit has, as reservations do.
weir_model.Bucket.is_debt = lambda self, now: getattr(self, 'is_over', False)
weir_model.Bucket.note_debt = lambda self, now: None


class Plan(nodes.Plan):
    """A plan; `leaky_police` is a leaky bucket that does not delay."""

    @property
    def algorithm(self):
        return 'leaky_bucket' if self.kind == 'leaky_police' else super().algorithm

    def make(self):
        if self.kind == 'leaky_police':
            return weir_model.make_limit('token_bucket', self.count, self.period, self.burst)
        return super().make()

    def can_follow(self, before):
        return self.kind == before.kind if self.kind == 'leaky_police' else super().can_follow(before)

    def text(self, node):
        return super().text(node).rstrip('\n') + (' police\n' if self.kind == 'leaky_police' else '\n')


class Key:
    """A key in the store: the limit, its lots, the plan that wrote it, and when a bucket was last used."""

    def __init__(self, plan=None):
        self.plan, self.limit = plan, plan and plan.make()
        self.set_at = plan.set_at if plan else 0
        if self.is_bucket:
            self.limit.is_over = False
        self.used_at, self.lots, self.began = 0, {}, 0

    @property
    def lent(self):
        return sum(self.lots.values())

    @property
    def is_bucket(self):
        return isinstance(self.limit, weir_model.Bucket)

    @property
    def is_window(self):
        return isinstance(self.limit, weir_model.FixedWindow)

    def window(self, now):
        """(began, used). A window also begins with a lease."""
        if self.limit.used or not self.lots:
            return self.limit.settled(now)
        return self.began, 0

    def charge(self, now, units):
        if self.is_window:
            self.limit.began, used = self.window(now)
            self.limit.used = min(used + units, max(COUNT_MOST, self.limit.most))
        else:
            self.limit.charge(now, units)

    def settle(self, now):
        for end in sorted(self.lots):
            if end <= now:
                self.charge_late(end, min(self.lots[end], self.limit.most))
                del self.lots[end]
                self.used_at = end

    def charge_late(self, now, units):
        """Charges what was allowed already. A bucket is charged at most twice its tokens."""
        limit = self.limit
        if isinstance(limit, weir_model.IntervalBucket):
            most = min(2 * limit.most, max(COUNT_MOST, limit.most))
            self.charge(now, min(units, max(0, most - limit.settled(now)[1])))
            return
        self.charge(now, units)
        if isinstance(limit, weir_model.SlidingCounter):
            most = max(limit.count, COUNTS_MOST // (limit.segments + 1))
            limit.counted[limit.newest] = min(limit.counted[limit.newest], most)
        elif self.is_bucket:
            limit.full_at = min(limit.full_at, now + 2 * limit.full_span)
            limit.owed = max(0, limit.full_at - now)

    def view(self, now):
        """The limit as if all lent units were spent now. After a change of the limit they may be more than it has."""
        view, lent = copy.copy(self.limit), min(self.lent, self.limit.most)
        if self.lots and self.is_window:
            view.began, view.used = self.window(now)
            view.used += lent
        elif self.lots:
            view.charge(now, lent)
        return view

    def convert(self, plan, now):
        if self.is_bucket:
            as_of = plan.set_at if self.used_at <= plan.set_at < now else now
            self.limit.set(as_of, plan.count, plan.period, plan.burst)
            if isinstance(self.limit, weir_model.IntervalBucket):
                self.limit.missing = min(self.limit.missing, 2 * plan.burst, max(COUNT_MOST, plan.burst))
            elif self.limit.is_over:
                self.limit.full_at = min(self.limit.full_at, as_of + 2 * self.limit.full_span)
            self.limit.notice(now)
            self.used_at = as_of
        else:
            self.limit.set(now, plan.count)
        self.plan, self.set_at = plan, plan.set_at

    def at(self, plan, now):
        """Returns the key as a request of a plan finds it."""
        if self.limit is None:
            return Key(plan), False
        if plan.set_at > self.set_at and not plan.can_follow(self.plan):
            return Key(plan), False
        key = copy.copy(self)
        key.limit, key.lots = copy.copy(self.limit), dict(self.lots)
        if self.is_bucket:
            key.limit.is_over = self.is_over
        key.settle(now)
        is_to_convert = plan.set_at > self.set_at
        if is_to_convert:
            key.convert(plan, now)
        return key, is_to_convert

    def written(self, now):
        """Returns the key as it is stored."""
        if not self.lots and nodes.raw(self.limit) is None:
            return Key()
        if self.is_bucket:
            used = self.view(now).full_at - now if hasattr(self.limit, 'full_at') else 0
            is_beyond = used > self.limit.full_span if hasattr(self.limit, 'full_at') else \
                self.limit.missing > self.limit.most
            self.is_over = bool(self.lots) or (self.limit.is_over and is_beyond)
        return self

    def ask(self, plan, now, operation, cost, first=0, second=0):
        """Returns (key, limit that decided, answer). The caller continues with the returned key."""
        key, is_changed = self.at(plan, now)
        before = nodes.raw(key.limit)
        key.limit.notice(now)
        is_noticed = nodes.raw(key.limit) != before
        is_changed |= is_noticed
        answer, is_used = getattr(key, operation)(now, cost, first, second) if operation in (
            'grant', 'give_back', 'push', 'undo') else key.simple(operation, now, cost)
        if (is_used and operation not in ('grant', 'give_back')) or is_noticed:
            key.used_at = now
        return key.written(now) if is_changed or is_used else self, key.limit.most, answer

    # Operations. Each returns the answer, and whether the key was charged or given back to.

    def refusal(self, now, cost, granted=None):
        view = self.view(now)
        if cost > self.limit.most:
            return Answer(NEVER, view.room(now), None, view.reset(now), None, granted)
        return Answer(DENY, view.room(now), view.retry(now, cost), view.reset(now), None, granted)

    def allowed(self, now, granted=None):
        view = self.view(now)
        return Answer(ALLOW, view.room(now), None, view.reset(now), None, granted)

    def simple(self, operation, now, cost):
        if self.limit.count_all:  # never lent
            before = nodes.raw(self.limit)
            answer = getattr(self.limit, operation)(now, cost)
            return answer, operation == 'refund' or nodes.raw(self.limit) != before
        room = self.view(now).room(now)
        if operation == 'refund':
            if self.is_window:
                began, used = self.window(now)
                self.limit.give(now, cost)
                self.limit.began = began
            else:
                self.limit.give(now, cost)
            return self.allowed(now), True
        granted = min(cost, room) if operation == 'upto' else cost
        if granted > room or (cost and not granted):
            return self.refusal(now, 1 if operation == 'upto' else cost, 0 if operation == 'upto' else None), False
        delay = self.limit.delay(now)
        if operation == 'peek' or not granted:
            return self.allowed(now, 0 if operation == 'upto' else None)._replace(delay=delay), False
        self.charge(now, granted)
        return self.allowed(now, granted if operation == 'upto' else None)._replace(delay=delay), True

    def undo(self, now, cost, at, charged):
        if self.is_window and not self.limit.count_all:
            began, used = self.window(now)
            back = min(cost, charged, used) if began <= at < began + self.limit.period else 0
            if back:
                self.limit.began, self.limit.used = began, used - back
            return self.allowed(now, back), back > 0
        back = 0 if self.limit.count_all else min(cost, charged, self.limit.still_charged(now, at, charged))
        if back:
            self.limit.give_charged(now, at, back)
        return self.allowed(now, ceil(back)), back > 0

    def lease_end(self, now, duration):
        """The next multiple of a quarter of the duration, in us, that is at least 1.001 durations away. In a window, the
        last one before its end. None: there is no such instant."""
        us, begin = duration // US, now // US
        grid = ceil(us / 4)
        if self.is_window:
            began = self.window(now)[0] // US
            begin = max(begin, began)
        end = -(-(begin + us + -(-us // 1000)) // grid) * grid
        if self.is_window and end >= began + self.limit.period // US:
            end = (began + self.limit.period // US - 1) // grid * grid
        return end * US if end > begin else None

    def grant(self, now, wanted, duration, most):
        if self.plan.kind in ('leaky_bucket', 'sliding_log') or self.plan.counts_all:
            return self.allowed(now, 0)._replace(verdict=NEVER), False
        room = self.view(now).room(now)
        if not room:
            return self.refusal(now, 1, 0), False
        end = self.lease_end(now, duration)
        units = min(wanted, room, most - self.lent)
        if end is None:
            answer = self.allowed(now, 0)
            left = sum(self.window(now)) - self.window(now)[1] + self.limit.period - now
            return answer._replace(verdict=DENY, retry=left), False
        if units <= 0 or (end not in self.lots and len(self.lots) == LOTS_MOST):
            wait = min(self.lots) - now if self.lots else duration
            return self.allowed(now, 0)._replace(verdict=DENY, retry=wait), False
        if self.is_window:
            self.began, used = self.window(now)
            self.limit.began, self.limit.used = self.began, used
        self.lots[end] = self.lots.get(end, 0) + units
        return self.allowed(now, units)._replace(delay=end - now), True

    def give_back(self, now, units, end, _):
        back = min(units, self.lots.get(end, 0))
        if back:
            self.lots[end] -= back
            if not self.lots[end]:
                del self.lots[end]
        return self.allowed(now, back), back > 0

    def push(self, now, cost, at, _):
        limit, cost = self.limit, min(cost, self.limit.most)
        units = cost
        if units and self.is_window:
            began, used = self.window(now)
            if limit.align_first:
                is_open = used + self.lent > 0
                old = limit.began + limit.period if limit.used and not is_open else 0
                counts = at + limit.period >= began if is_open else at + limit.period > now and at >= old
                if not is_open:
                    began = min(at, now)
            else:
                counts = at >= began
            if counts:
                limit.began, limit.used = began, min(used + units, max(COUNT_MOST, limit.most))
            else:
                cost = 0
        elif units and isinstance(limit, weir_model.SlidingCounter):
            current = limit.current(now)[0]
            index = min(at // limit.width, current)
            if index >= current - limit.segments:
                limit.counted = dict(limit.live(current))
                limit.counted[index] = min(limit.counted.get(index, 0) + units, COUNTS_MOST // (limit.segments + 1))
                limit.newest = current
            else:
                cost = 0
        elif units and isinstance(limit, weir_model.SlidingLog):
            limit.count_denied(now, units)
        elif units:
            self.charge_late(now, units)
        if cost and self.is_bucket:
            limit.is_over = True
        return self.allowed(now, cost), cost > 0

    is_over = False


# What servers do.

class Check:
    """What was allowed, and when. Compared with what exact limits allow."""

    def __init__(self, plan, ahead, servers):
        self.plan, self.over, self.events, self.windows = plan, (servers - 1) * ahead, [], []

    def note(self, at, units):
        if units:
            self.events.append((at, units))

    def note_window(self, began):
        if not self.windows or began >= self.windows[-1] + self.plan.period:
            self.windows.append(began)

    def hold(self):
        plan, events = self.plan, sorted(self.events)
        if plan.kind in ('token_bucket', 'leaky_police'):
            rate = weir_model.Fraction(plan.count, plan.period)
            self.intervals(events, lambda length: plan.burst + rate * length)
        elif plan.kind == 'interval':
            self.intervals(events, lambda length: plan.burst - 1 + plan.count * (length // plan.period + 1))
        elif plan.kind == 'fixed_window':
            for began in self.windows if plan.first else sorted({at // plan.period * plan.period for at, _ in events}):
                self.at_most(sum(units for at, units in events if began <= at < began + plan.period), plan.count)
        elif plan.kind in ('sliding_counter', 'segments') and not self.over:
            counter = plan.make()
            for at, units in events:
                counter.charge(at, units)
                self.at_most(counter.estimate(at), plan.count)

    def intervals(self, events, most):
        for i, (since, _) in enumerate(events):
            total = 0
            for until, units in events[i:]:
                total += units
                self.at_most(total, most(until - since))

    def at_most(self, total, most):
        if total > most + self.over:
            raise AssertionError(f'{total} units, above {most} + {self.over}, of {vars(self.plan)}: {self.events}')


class Servers:
    """Several servers that share a key: their plans, what they hold, and what they have not pushed."""

    def __init__(self, trace, kind):
        self.trace, self.kind, self.key = trace, kind, Key()
        trace.lines.append('key\n')
        plan = draw_plan(trace, kind)
        trace.scale(plan.count, plan.period, plan.burst)
        trace.begin()
        trace.set_now(min(trace.now, trace.latest - nodes.MARGIN))
        self.latest = trace.now
        self.names = nodes.NODES[:2 + trace.below(2)]
        self.plans = dict.fromkeys(self.names, plan)
        for name in self.names:
            trace.lines.append(plan.text(name))
        self.is_plain = trace.random() < 0.6 and kind not in ('leaky_bucket', 'sliding_log')
        self.pushes = trace.random() < 0.4
        self.ahead = 1 + trace.below(max(1, plan.burst // 8)) if self.pushes and self.is_plain else 0
        if self.ahead * len(self.names) > plan.burst or 2 * plan.burst > COUNT_MOST:
            self.ahead = 0
        self.pending = {name: [] for name in self.names}
        self.check = Check(plan, self.ahead, len(self.names)) if self.is_plain else None
        self.held = []  # [name, end, units]
        scale = max(US, self.one(trace.token_time, trace.period, trace.full_span, trace.full_span // 20))
        self.duration = min(LEASE_LONGEST, -(-scale // US) * US)

    def one(self, *choices):
        return self.trace.one_of(choices)

    def move(self):
        trace, before = self.trace, self.trace.now
        if self.held and trace.random() < 0.35:
            trace.set_now(self.one(*self.held)[1] + self.one(-US, 0, 0, US))
        else:
            trace.move()
        if self.check:
            trace.set_now(max(trace.now, before))
        elif trace.now < self.latest - 50 * 10**9:
            trace.set_now(before)
        if trace.now > trace.latest - nodes.MARGIN:
            trace.set_now(before)
        self.latest = max(self.latest, trace.now)
        return trace.now

    def change(self):
        trace, name = self.trace, self.one(*self.names)
        plan = draw_plan(trace, self.kind, self.plans[name])
        plan.set_at = nodes.draw_instant(trace, self.plans)
        self.plans[name] = plan
        trace.lines.append(plan.text(name))

    def ask(self, name, operation, cost, first=None, second=0):
        trace, now = self.trace, self.trace.now
        if operation in ('take', 'upto', 'grant') and self.pending[name]:
            self.push(name)
        instant = (first or 0) * (US if operation in ('give_back', 'push') else 1)
        self.key, most, answer = self.key.ask(self.plans[name], now, operation, cost, instant, second)
        trace.last = answer
        answer = answer._replace(retry=answer.retry and min(answer.retry, TIME_MOST),
                                 reset=answer.reset and min(answer.reset, TIME_MOST))
        fields = [answer.remaining, answer.retry, answer.reset, answer.delay, answer.granted]
        told = ' '.join('-' if field is None else str(field) for field in fields)
        word = {'give_back': 'return'}.get(operation, operation)
        numbers = f'ask {name} {now} {word} {cost}' if first is None else \
            f'lease {name} {now} {word} {cost} {first} {second}'
        trace.lines.append(f'{numbers} {answer.verdict} {most} {told}\n')
        trace.rows += 1
        if self.check and self.key.limit:
            # Invariant: what is left and what is lent are never more than the limit.
            lent = sum(units for end, units in self.key.lots.items() if end > now)
            assert answer.remaining + lent <= most, (answer, self.key.lots, most)
            if self.key.is_window:
                began, used = self.key.window(now)
                if used or lent:
                    self.check.note_window(began)
        return answer

    def lease(self, name):
        trace, most = self.trace, self.plans[name].burst
        cap = self.one(most, most, 1 + trace.below(most), max(1, most // 20), 0)
        if not self.check and trace.random() < 0.2:
            self.duration = min(LEASE_LONGEST, (1 + trace.below(2 * self.duration // US)) * US)
        wanted = trace.cost(most, trace.last.remaining)
        answer = self.ask(name, 'grant', wanted, self.duration, cap)
        if answer.verdict == ALLOW and trace.random() < 0.9:  # otherwise the reply is lost
            self.held.append([name, trace.now + answer.delay, answer.granted])

    def spend(self, name):
        """Spends a part of a lease at once; the rest follows later."""
        mine = [lot for lot in self.held if lot[0] == name and lot[1] > self.trace.now]
        if mine:
            lot = self.one(*mine)
            units = 1 + self.trace.below(lot[2])
            lot[2] -= units
            if self.check:
                self.check.note(self.trace.now, units)
            if not lot[2]:
                self.held.remove(lot)

    def give_back(self, name):
        """Returns a part of a lease. The call may be late, be lost, or name an end that does not exist."""
        trace = self.trace
        mine = [lot for lot in self.held if lot[0] == name]
        if not mine:
            if not self.check:
                self.ask(name, 'give_back', 1 + trace.below(5), trace.now // US // 7 * 7)
            return
        lot = self.one(*mine)
        units = 1 + trace.below(lot[2])
        lot[2] -= units
        if not lot[2]:
            self.held.remove(lot)
        if not self.check:
            units += self.one(0, 0, 1, 1 + trace.below(5))
        if trace.random() < 0.9:
            self.ask(name, 'give_back', units, lot[1] // US)

    def late(self):
        """What leases that have ended held was spent at their end, in the adversary's favour."""
        for lot in [lot for lot in self.held if lot[1] <= self.trace.now]:
            if self.trace.random() < 0.8:
                if self.check:
                    self.check.note(lot[1] - 1, lot[2])
                self.held.remove(lot)

    def push(self, name):
        if self.check:
            pending, self.pending[name] = self.pending[name], []
            for at, units in pending:
                self.ask(name, 'push', units, at // US)
        else:
            cost = self.trace.cost(self.plans[name].burst, self.trace.last.remaining)
            self.ask(name, 'push', cost, max(0, self.trace.now - self.trace.below(2 * self.trace.period)) // US)

    def ahead_of_store(self, name):
        """Allows units that are pushed later, if a look at the store says that they are left."""
        unpushed = sum(units for _, units in self.pending[name])
        answer = self.ask(name, 'push', 0, self.trace.now // US)
        units = min(self.ahead - unpushed, answer.remaining - unpushed)
        if units > 0:
            units = 1 + self.trace.below(units)
            self.pending[name].append((self.trace.now, units))
            self.check.note(self.trace.now, units)

    def step(self):
        trace, u, name = self.trace, self.trace.random(), self.one(*self.names)
        self.move()
        self.late()
        if u < 0.04 and not self.check:
            self.change()
        elif u < 0.28:
            self.lease(name)
        elif u < 0.40:
            self.spend(name)
        elif u < 0.52:
            self.give_back(name)
        elif u < 0.62 and self.pushes:
            if self.ahead and u < 0.58:
                self.ahead_of_store(name)
            elif self.ahead or not self.check:
                self.push(name)
        elif u < 0.68 and not self.check and self.kind != 'sliding_log':
            back = self.one(0, self.duration, trace.below(trace.period))
            at = max(0, trace.now - back) // US
            charged = min(COUNT_MOST, trace.cost(self.plans[name].burst, trace.last.remaining))  # no limit allows more
            units = min(COUNT_MOST, trace.cost(self.plans[name].burst, charged))
            self.ask(name, 'undo', units, at * US, charged)
        else:
            operation = 'take' if u < 0.86 else 'peek' if u < 0.91 else 'upto' if u < 0.97 or self.check else 'refund'
            cost = trace.cost(self.plans[name].burst, trace.last.remaining)
            if any(plan.counts_all for plan in self.plans.values()):
                cost = min(cost, nodes.DENIED_MOST)
            answer = self.ask(name, operation, cost)
            if self.check and answer.verdict == ALLOW and operation != 'peek':
                self.check.note(trace.now, cost if answer.granted is None else answer.granted)

    def play(self):
        for _ in range(30 + self.trace.below(40)):
            self.step()
        if self.check:
            for name in self.names:
                if self.ahead:
                    self.push(name)
            self.check.hold()


def draw_plan(trace, kind, like=None):
    drawn = nodes.draw_plan(trace, 'token_bucket' if kind == 'leaky_police' else kind, like)
    plan = Plan(**vars(drawn))
    plan.kind = kind
    if like is None:
        plan.counts_all = plan.counts_all and trace.random() < 0.2
    return plan


def main():
    parser = argparse.ArgumentParser(description='Prints random traces of leases with the model\'s answers.')
    parser.add_argument('--algorithm', required=True, choices=KINDS)
    parser.add_argument('--steps', required=True, type=int, metavar='N', help='how many requests, at least')
    parser.add_argument('--seed', required=True, type=int, metavar='S')
    args = parser.parse_args()
    generate.Trace.grain, generate.Trace.latest, generate.Trace.ends = (
        generate.REDIS_GRAIN, generate.REDIS_TIME_MAX, generate.REDIS_ENDS)
    dice = random.Random(f'leases {args.algorithm} {args.seed}')
    rows = 0
    while rows < args.steps:
        trace = generate.Trace(dice)
        Servers(trace, args.algorithm).play()
        rows += trace.rows
        sys.stdout.write(''.join(trace.lines))


if __name__ == '__main__':
    main()
