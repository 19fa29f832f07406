#!/usr/bin/env python3
"""store_opentelemetry.py: sends the statistics of a store to an OpenTelemetry collector, as metrics over OTLP/HTTP in
JSON. Your program would do this every minute, from a thread.

    PYTHONPATH=bindings/python WEIR_LIBRARY=build/src/libweir.so python3 examples/store_opentelemetry.py URL COLLECTOR

COLLECTOR is its base URL, such as http://127.0.0.1:4318."""

import itertools
import json
import sys
import time
import urllib.request

import weir

CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE


def attributes(**words):
    return [{"key": key, "value": {"stringValue": value}} for key, value in words.items()]


def metrics_of(store, since_ns, now_ns):
    """64-bit numbers are strings in OTLP's JSON."""
    stats = store.stats()
    times = {"startTimeUnixNano": str(since_ns), "timeUnixNano": str(now_ns)}

    def point(value, **words):
        return {**times, "asInt": str(value), "attributes": attributes(**words)}

    def counter(name, unit, points):
        return {"name": name, "unit": unit,
                "sum": {"aggregationTemporality": CUMULATIVE, "isMonotonic": True, "dataPoints": points}}

    def gauge(name, unit, value):
        return {"name": name, "unit": unit, "gauge": {"dataPoints": [point(value)]}}

    return [
        counter("weir.limit.decisions", "{decision}",
                [point(value, limit=limit.name, result=result) for limit in store.limits()
                 for result, value in (("allowed", limit.allowed), ("denied", limit.denied))]),
        counter("weir.store.requests", "{request}",
                [point(value, outcome=outcome) for outcome, value in
                 (("decided", stats.decided), ("unreached", stats.unreached), ("unanswered", stats.unanswered))]),
        counter("weir.store.fallback_decisions", "{request}", [point(stats.by_fallback)]),
        gauge("weir.store.up", "1", int(stats.health is weir.Health.UP)),
        gauge("weir.store.nodes", "{node}", stats.nodes),
        gauge("weir.store.deferred_keys", "{key}", stats.deferred_keys),
        {"name": "weir.store.duration", "unit": "s", "histogram": {"aggregationTemporality": CUMULATIVE, "dataPoints": [
            {**times, "count": str(sum(stats.latency_counts)), "sum": stats.latency_sum_us / 1e6,
             "bucketCounts": [str(count) for count in stats.latency_counts],
             "explicitBounds": stats.latency_seconds[:-1], "attributes": []}]}},
    ]


def send(collector, metrics):
    body = {"resourceMetrics": [{"resource": {"attributes": attributes(**{"service.name": "myapp"})},
                                 "scopeMetrics": [{"scope": {"name": "weir"}, "metrics": metrics}]}]}
    request = urllib.request.Request(f"{collector}/v1/metrics", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.status


def main(url, collector):
    since_ns = time.time_ns()
    with weir.Store(url, on_failure="share") as store:
        store.wait(5)
        per_user = store.add_limit("per-user", "10/hour")
        for _ in itertools.repeat(None, 12):  # some traffic to count
            per_user.take("ada")
        print("sent:", send(collector, metrics_of(store, since_ns, time.time_ns())))


if __name__ == "__main__":
    main(*sys.argv[1:])
