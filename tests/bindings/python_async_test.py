#!/usr/bin/env python3
"""Reservations, coroutines that wait, and queues in Python. The event loop has a fake clock: when the loop is idle, it
jumps to the next timer. So no test sleeps, and every time is exact.

    python_async_test.py

WEIR_LIBRARY names the library and PYTHONPATH the folder of the package."""

import asyncio
import collections
import contextlib
import selectors
import sys
import threading

import weir
from python_test import MS, PATIENCE_S, S, THEN, main, raises, refused

HERD = 3000


class Jumping(selectors.SelectSelector):
    """Advances the fake clock of its loop instead of waiting."""

    ns = 0

    def select(self, timeout=None):
        found = super().select(0)
        if not found and timeout is None:
            raise AssertionError("the loop would wait for ever")
        if not found:
            self.ns += max(int(timeout * 1e9 + 0.5), 0)
        return found


def run(function):
    """Runs the coroutine function on a new loop, with clock() as its argument."""
    selector = Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.ns / 1e9
    loop._clock_resolution = 1e-9
    try:
        return loop.run_until_complete(function(lambda: THEN + selector.ns))
    finally:
        loop.close()
        assert not weir._lines.get(loop), "lines are left over"


@contextlib.contextmanager
def counted():
    """Counts the calls of each function of the library."""
    library, calls = weir._library, collections.Counter()

    class Counting:
        def __getattr__(self, name):
            calls[name] += 1
            return getattr(library, name)

    weir._library = Counting()
    try:
        yield calls
    finally:
        weir._library = library


def limiter_of(text, clock):
    limiter = weir.Limiter(text)
    limiter._waiter.now = clock
    return limiter.acquire


def limit_of(text, clock, key="alice"):
    table = weir.Table(keys=100, made_at=THEN, arena_bytes=1 << 20)
    limit = table.add_limit("a", text)

    def acquire(*arguments, **named):
        waiter = weir._KeyWaiter(table._use(), limit._pointer, weir._key(key))
        waiter.now = clock
        return waiter.acquire(*(arguments or (1,)), **{"timeout": None, **named})

    return acquire


BOTH = (limiter_of, limit_of)
BUCKETS = ("1000/s burst 1", "1000/s burst 100", "1000/s leaky burst 1", f"1000/s leaky queue {HERD}")
WINDOWS = ("1000/s fixed_window", "1000/s sliding_log", "1000/s sliding_counter", "1000/s fixed_window count all",
           "1000/s refill interval")


async def herd(acquire, clock, n):
    """When each of n tasks was allowed, in ms. They must be allowed in the order in which they started."""
    order = []

    async def one(number):
        assert await acquire() is weir.Waited.GO
        order.append(number)
        return (clock() - THEN) / MS

    went = await asyncio.gather(*(one(number) for number in range(n)))
    assert order == list(range(n)), "not in the order in which they came"
    return went


def a_herd_of_tasks_takes_once_each():
    for make in BOTH:
        for text in BUCKETS:
            async def play(clock):
                acquire = make(text, clock)
                with counted() as calls:
                    went = await herd(acquire, clock, HERD)
                asked = sum(n for name, n in calls.items() if name.endswith(("take", "peek", "reserve", "allow")))
                assert asked == HERD, f"{text}: {calls}"
                burst = 100 if "100" in text.partition("burst")[2] else 1
                exact = [max(number - burst + 1, 0) for number in range(HERD)]
                assert all(due <= at <= due + 0.001 for due, at in zip(exact, went)), f"{text}: {went[:5]} {went[-5:]}"

            run(play)


def windows_are_tried_by_the_first_alone():
    for make in BOTH:
        for text in WINDOWS:
            async def play(clock):
                acquire = make(text, clock)
                with counted() as calls:
                    went = await herd(acquire, clock, HERD)
                takes = sum(n for name, n in calls.items() if name.endswith("take"))
                asked = takes + sum(n for name, n in calls.items() if name.endswith("peek"))
                assert takes <= HERD + 10 and asked <= 3 * HERD + 10, f"{text}: {calls}"
                assert went[999] == 0 and went[1000] > 0 and went[-1] >= 999, f"{text}: {went[-1]}"

            run(play)


def what_need_not_wait_does_not():
    for make in BOTH:
        for text in ("1/hour", "1/hour leaky", "1/hour fixed_window align first", "1/hour refill interval", "1/hour leaky queue 1"):
            async def play(clock):
                acquire = make(text, clock)
                assert await acquire(2) is weir.Waited.NEVER and await acquire(0)
                assert await acquire(timeout=0) is weir.Waited.GO
                for timeout in (0, -1, 1, 3599.9):
                    assert await acquire(timeout=timeout) is weir.Waited.DEADLINE, text
                assert clock() == THEN
                assert await acquire(timeout=3600) is weir.Waited.GO
                assert clock() - THEN - 3600 * S < MS

            run(play)


def a_task_waits_in_line_until_its_timeout():
    """The task waits behind another, so how long it will take is not known yet."""
    async def play(clock):
        acquire = limiter_of("1/hour fixed_window", clock)
        assert await acquire()
        first = asyncio.ensure_future(acquire())
        await asyncio.sleep(0)
        assert await acquire(timeout=5) is weir.Waited.DEADLINE and clock() - THEN == 5 * S
        second = asyncio.ensure_future(acquire())
        assert await first and await second and clock() - THEN > 3600 * S

    run(play)


def cancelled_tasks_give_back():
    """After a cancellation of any kind, the next task waits as if the cancelled one had never come."""
    for make in BOTH:
        for text in ("1/s burst 1", "1/s leaky burst 1", "1/s leaky queue 20", "1/s fixed_window"):
            for order in ("forwards", "backwards", "inside out"):
                async def play(clock):
                    acquire = make(text, clock)
                    assert await acquire()
                    tasks = [asyncio.ensure_future(acquire()) for _ in range(9)]
                    await asyncio.sleep(0.001)
                    rows = {"forwards": tasks, "backwards": tasks[::-1], "inside out": tasks[4:] + tasks[:4]}
                    for task in rows[order]:
                        task.cancel()
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                    assert all(isinstance(each, asyncio.CancelledError) for each in done), done
                    assert await acquire() and clock() - THEN <= 1 * S + MS, f"{text}, {order}: {clock() - THEN}"

                run(play)


def those_who_stay_keep_their_instants():
    for make in BOTH:
        for text in ("1/s burst 1", "1/s leaky queue 20"):
            async def play(clock):
                acquire = make(text, clock)
                went = []

                async def one(number):
                    await acquire()
                    went.append((number, (clock() - THEN) // S))

                tasks = [asyncio.ensure_future(one(number)) for number in range(5)]
                await asyncio.sleep(0.001)
                tasks[2].cancel()
                tasks[3].cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert went == [(0, 0), (1, 1), (4, 4)], went

            run(play)


def wait_for_cancels():
    async def play(clock):
        acquire = limiter_of("1/s burst 1", clock)
        assert await acquire()
        for _ in range(100):
            try:
                await asyncio.wait_for(acquire(), 0.5)
            except asyncio.TimeoutError:
                continue
            break
        assert clock() - THEN <= 1 * S + MS, "what it had reserved is not given back"

    run(play)


def keys_do_not_wait_for_each_other():
    async def play(clock):
        table = weir.Table(keys=100, made_at=THEN)
        limit, went = table.add_limit("a", "1/s fixed_window"), []

        async def one(key):
            waiter = weir._KeyWaiter(table._use(), limit._pointer, key)
            waiter.now = clock
            assert await waiter.acquire(1, None)
            went.append((key, (clock() - THEN) // S))

        await asyncio.gather(*(one(key) for key in (b"a", b"a", b"b", b"b", b"c")))
        assert sorted(went) == [(b"a", 0), (b"a", 1), (b"b", 0), (b"b", 1), (b"c", 0)], went

    run(play)


def a_table_reserves_half_a_minute_ahead():
    """Tasks that would wait longer queue up and are still allowed in order."""
    async def play(clock):
        acquire = limit_of("1/10s burst 1", clock)
        went = await herd(acquire, clock, 12)
        assert [round(each) for each in went] == [10_000 * number for number in range(12)], went
        began = clock()
        tasks = [asyncio.ensure_future(acquire()) for _ in range(6)]
        await asyncio.sleep(0.001)
        assert await acquire(timeout=45) is weir.Waited.DEADLINE and clock() - began <= 45 * S + MS
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(play)


def loops_of_threads_share_a_limiter():
    limiter, went = weir.Limiter("2000/s burst 1"), []

    def one():
        async def play():
            return await asyncio.gather(*(limiter.acquire() for _ in range(50)))

        went.extend(asyncio.run(play()))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert went == [weir.Waited.GO] * 200


def tables_are_waited_for_on_the_clock():
    async def play():
        with weir.Table(keys=100) as table:
            limit = table.add_limit("a", "1000/s burst 1")
            assert all(await asyncio.gather(*(limit.acquire("alice") for _ in range(20))))
            assert limit.stats().allowed == 20

    asyncio.run(play())


# --- reservations -----------------------------------------------------------------------------------------------------


def reservations():
    table = weir.Table(keys=100, made_at=THEN)
    limiter, limit = weir.Limiter("1/s burst 1"), table.add_limit("a", "1/s burst 1")
    for reserve in (limiter.reserve, lambda *a, **b: limit.reserve("k", *a, **b)):
        first, second, third = (reserve(now=THEN) for _ in range(3))
        assert first and second and (first.act_at, third.act_at) == (THEN, THEN + 2 * S)
        assert third.verdict.delay_seconds == 2 and repr(second) == f"<weir.Reservation of 1, acts at {THEN + S}>"
        late = reserve(timeout=2.5, now=THEN)
        assert not late and late.verdict.retry_seconds == 0.5 and late.cancel(THEN) == 0
        assert second.cancel(THEN) == 0, "a later one was built upon it"
        assert third.cancel(THEN) == 1 and third.cancel(THEN) == 0
        assert reserve(2, now=THEN).verdict.never
    assert "windows and logs" in refused(weir.ERR_UNSUPPORTED, weir.Limiter("1/s fixed_window").reserve)
    assert "only smooth buckets" in refused(weir.ERR_UNSUPPORTED, table.add_limit("b", "1/s fixed_window").reserve, "k")
    raises(OverflowError, limiter.reserve, -1)


# --- queues -----------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.ns = THEN

    def __call__(self):
        return self.ns


def items_leave_in_order_at_the_rate():
    clock = Clock()
    queue = weir.Queue("10/s leaky queue 3", clock)
    assert [queue.try_push(item).delay for item in ("a", None, ["c"])] == [0, 100 * MS, 200 * MS] and len(queue) == 3
    full = queue.try_push("d")
    assert not full and full.limit == 3 and full.remaining == 0 and len(queue) == 3
    assert queue.try_pop() == ("a", None) and queue.try_pop() == (None, 100 * MS)
    clock.ns += 100 * MS
    assert queue.try_pop() == (None, None) and queue.push("d", timeout=0) and repr(queue) == "<weir.Queue with 2 items>"
    assert queue.drain() == [["c"], "d"] and len(queue) == 0 and queue and not queue._items
    assert queue.try_pop() == (None, weir.NEVER)


def items_are_in_memory_only():
    """Items that are drained before the program ends and pushed when it starts again keep their order. The first leaves
    at once."""
    clock = Clock()
    before = weir.Queue("1/hour leaky queue 5", clock)
    assert all(before.try_push(item) for item in "abcd") and before.try_pop() == ("a", None)
    kept, after = before.drain(), weir.Queue("1/hour leaky queue 5", clock)
    assert kept == ["b", "c", "d"] and len(before) == len(after) == 0
    assert [after.try_push(item).delay for item in kept] == [0, 3600 * S, 7200 * S] and after.try_pop() == ("b", None)


def a_closed_queue_ends():
    queue = weir.Queue("1000/s leaky queue 300")
    for number in range(300):
        assert queue.push(number)
    assert queue.push("late", timeout=0) in (weir.Waited.DEADLINE, weir.Waited.GO)
    queue.close()
    assert queue.push("too late") is weir.Waited.CLOSED
    refused(weir.ERR_CLOSED, queue.try_push, "too late")
    assert len(queue.drain()) >= 300 and list(queue) == []
    refused(weir.ERR_CLOSED, queue.pop)
    refused(weir.ERR_CLOSED, queue.try_pop)
    refused(weir.ERR_UNSUPPORTED, weir.Queue, "10/s")
    refused(weir.ERR_SYNTAX, weir.Queue, "10/fortnight")


def threads_pass_items_on():
    queue, got = weir.Queue("5000/s leaky queue 4"), []
    consumer = threading.Thread(target=lambda: got.extend(queue))
    consumer.start()
    assert all(queue.push(number, timeout=PATIENCE_S) for number in range(100))
    queue.close()
    consumer.join(PATIENCE_S)
    assert got == list(range(100)) and not queue._items


def waits_of_a_queue_end():
    clock = Clock()
    queue, canceller = weir.Queue("1/hour leaky queue 1", clock), weir.Canceller()
    refused(weir.ERR_DEADLINE, queue.pop, timeout=0)
    assert queue.push("a") and queue.push("b", timeout=0) is weir.Waited.DEADLINE and len(queue._items) == 1
    threading.Timer(0.02, canceller.cancel).start()
    assert queue.push("b", canceller=canceller) is weir.Waited.CANCELLED and len(queue._items) == 1
    assert queue.pop() == "a"
    refused(weir.ERR_CANCELLED, queue.pop, canceller=canceller)
    got = []
    waiting = threading.Thread(target=lambda: got.append(queue.pop()))
    waiting.start()
    assert queue.push("c")
    clock.ns += 3600 * S
    queue.tick()
    waiting.join(PATIENCE_S)
    assert got == ["c"]


def a_loop_polls_a_queue():
    queue = weir.Queue("1000/s leaky queue 10")

    async def play():
        got, done, loop = [], asyncio.Event(), asyncio.get_running_loop()

        def leave():
            while True:
                item, wait = queue.try_pop()
                if wait is not None:
                    break
                got.append(item)
            if len(got) == 5:
                done.set()

        loop.add_reader(queue.fileno(), leave)
        for number in range(5):
            assert queue.try_push(number)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        loop.remove_reader(queue.fileno())
        return got

    assert asyncio.run(play()) == [0, 1, 2, 3, 4]


TESTS = [a_herd_of_tasks_takes_once_each, windows_are_tried_by_the_first_alone, what_need_not_wait_does_not,
         a_task_waits_in_line_until_its_timeout, cancelled_tasks_give_back, those_who_stay_keep_their_instants,
         wait_for_cancels, keys_do_not_wait_for_each_other, a_table_reserves_half_a_minute_ahead,
         loops_of_threads_share_a_limiter, tables_are_waited_for_on_the_clock, reservations,
         items_leave_in_order_at_the_rate, items_are_in_memory_only, a_closed_queue_ends, threads_pass_items_on, waits_of_a_queue_end,
         a_loop_polls_a_queue]

if __name__ == "__main__":
    sys.exit(main(TESTS))
