#!/usr/bin/env python3
"""Users with a key_prefix: a tenant's requests count in its own keys, which others see with the prefix.

    tenants_test.py WEIR"""

import contextlib
import http.client
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import toy  # noqa: E402
from daemon import TIMEOUT_S, daemon, run  # noqa: E402
from redis_server import redis  # noqa: E402
from resp_client import Client  # noqa: E402

WEIR = sys.argv[1]
ALL_BUT_ADMIN = "roles: [decide, operate, read]"
USERS = f"""users:
  acme: {{password: p, token: acme-token, key_prefix: acme/, {ALL_BUT_ADMIN}}}
  acme2: {{password: p, token: acme2-token, key_prefix: acme/}}
  Beta.b: {{password: p, token: beta-token, key_prefix: Beta.b/, {ALL_BUT_ADMIN}}}
  plain: {{password: p, token: plain-token}}
  ops: {{password: p, token: ops-token, role: admin}}
"""
POLICY = """attributes:
  ip: {type: ip}
  path: {type: path}
  host: {lower: true}
limits:
  - {name: everyone, limit: 50/5000day fixed_window}
  - {name: by-user, key: user, match: {user: {present: true}}, limit: 9/5000day fixed_window}
  - {name: by-ip, key: ip, match: {ip: {present: true}}, limit: 9/5000day fixed_window}
  - {name: by-path, key: path, match: {path: {present: true}}, limit: 9/5000day fixed_window}
  - {name: by-host, key: host, match: {host: {present: true}}, limit: 9/5000day fixed_window}
  - {name: by-both, key: [user, ip], match: {both: 'yes'}, limit: 5/5000day fixed_window}
  - {name: shadowed, key: user, match: {user: {present: true}}, mode: shadow, limit: 2/5000day fixed_window}
"""
ENVOY = """domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}
"""
LIMIT = "9/5000day fixed_window"
TENANTS = ("acme", "Beta.b", "plain")


@contextlib.contextmanager
def serving(policy=POLICY, *options):
    with tempfile.TemporaryDirectory(prefix="weir-tenants-") as folder:
        config, path = os.path.join(folder, "weir.yaml"), os.path.join(folder, "policy.yaml")
        for name, text in ((config, USERS), (path, policy)):
            with open(name, "w", encoding="ascii") as file:
                file.write(text)
        with daemon(WEIR, "--config", config, "--policy", path, "--keys", "1000", "--workers", "1", *options,
                    http="127.0.0.1:0") as one:
            yield one


@contextlib.contextmanager
def users(one, *names):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(one)) for _ in names]
        for client, name in zip(clients, names):
            assert client.ask("AUTH", name, "p") == "OK"
        yield clients


def post(one, token, path, body=None, method="POST"):
    client = http.client.HTTPConnection(one.http_at, timeout=TIMEOUT_S)
    client.request(method, path, None if body is None else json.dumps(body).encode(),
                   {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    answer = client.getresponse()
    text = answer.read()
    client.close()
    return answer.status, json.loads(text)


def left(verdict):
    """What a reply in the format of WEIR.TAKE has left."""
    return verdict[2]


def commands_count_for_the_tenant():
    """Each tenant takes three times; a user outside the tenant starts with the full limit."""
    rows = [(("WEIR.TAKE", "k1", LIMIT), 8), (("WEIR.UPTO", "k2", LIMIT, 1), 8), (("WEIR.ALL", "k3", LIMIT, 1, "k3b", "99/day", 1), 8),
            (("WEIR.TAKE", "k4", LIMIT, "WAIT", 1), 8), (("WEIR.TAKE", "ann", "@by-user"), 8), (("WEIR.TAKE", "10.0.0.1", "@by-ip"), 8),
            (("WEIR.TAKE", "ip=10.0.0.2", "@by-ip", 1, "WAIT", 1), 8), (("WEIR.TAKE", "/a/../B", "@by-path"), 8),
            (("WEIR.TAKE", "Shop.Example", "@by-host"), 8), (("WEIR.TAKE", "", "@everyone"), 49),
            (("WEIR.TAKE", "user=ann ip=10.0.0.1", "@by-both"), 4), (("CL.THROTTLE", "k5", 8, 1, 86400), 8),
            (("THROTTLE", "k6", 9, 1, 86400), 8), (("WEIR.ALL", "ann2", "@by-user", 1, "k7", LIMIT, 1), 8)]
    with serving() as one, users(one, *TENANTS) as clients:
        for words, first in rows:
            for client in clients:
                found = [left(reply) for reply in client.pipeline([words] * 3)]
                assert found == [first, first - 1, first - 2], (words, found)
        with users(one, "acme2") as (same,):  # another user of the same tenant
            assert left(same.ask("WEIR.TAKE", "k1", LIMIT)) == 5 and left(same.ask("WEIR.TAKE", "10.0.0.1", "@by-ip")) == 5


def checks_count_for_the_tenant():
    rows = [({"user": "ann"}, 8), ({"ip": "10.0.0.1"}, 8), ({"path": "/a/B"}, 8), ({"host": "Shop.Example"}, 8),
            ({"user": "bob", "ip": "10.0.0.9", "both": "yes"}, 4), ({"x": "y"}, None)]
    with serving() as one, users(one, *TENANTS, "ops") as (*clients, ops):
        for attributes, first in rows:
            words = [word for pair in attributes.items() for word in pair]
            for client, base in zip(clients, ("acme-token", "beta-token", "plain-token")):
                found = [reply[2] for reply in client.pipeline([("WEIR.CHECK", *words)] * 2)]
                query = "&".join(f"{name}={value}" for name, value in attributes.items())
                found.append(post(one, base, f"/v1/check?{query}", method="GET")[1]["remaining"])
                status, batch = post(one, base, "/v1/check", [{"attributes": attributes}])
                assert status == 200, batch
                found.append(batch[0]["remaining"])
                assert first is None or found == [first, first - 1, first - 2, first - 3], (attributes, found)
        # Limits without a key have a copy for each tenant: 4 of each row.
        for client in clients:
            assert left(client.ask("WEIR.PEEK", "", "@everyone")) == 50 - 4 * len(rows)
        # The same for shadow limits. A user without a prefix sees tenants' keys with their prefixes.
        for key, limit, remaining in (("acme/ann", "@by-user", 5), ("user=acme/ann", "@shadowed", 0), ("acme/ip=10.0.0.1", "@by-ip", 5),
                                      ("acme/10.0.0.1", "@by-ip", 5), ("acme/", "@everyone", 50 - 4 * len(rows)),
                                      ("acme/user=bob ip=10.0.0.9", "@by-both", 1), ("Beta.b/ip=10.0.0.1", "@by-ip", 5),
                                      ("acme/path=/a/B", "@by-path", 5), ("Beta.b/host=shop.example", "@by-host", 5),
                                      ("ann", "@by-user", 5), ("nobody/ann", "@by-user", 9)):
            assert left(ops.ask("WEIR.PEEK", key, limit, 0)) == remaining, (key, limit)


def envoys_form_counts_for_the_tenant():
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}
    with serving(ENVOY) as one:
        for token in ("acme-token", "beta-token", "plain-token"):
            found = [post(one, token, "/json", body)[1]["statuses"][0].get("limitRemaining", 0) for _ in range(3)]
            assert found == [4, 3, 2], found
        with users(one, "ops") as (ops,):
            assert left(ops.ask("WEIR.PEEK", "acme/domain=shop user=ann", "@shop|user", 0)) == 2


def http_counts_for_the_tenant():
    take = {"limit": LIMIT, "key": "k"}
    with serving() as one:
        for token in ("acme-token", "beta-token", "plain-token"):
            for body, first in ((take, 8), ({**take, "limit": "@by-ip", "key": "10.0.0.1"}, 8),
                                ({"all": [{**take, "key": "k2"}, {"limit": "@everyone", "key": ""}]}, 8)):
                found = [post(one, token, "/v1/take", body)[1]["remaining"] for _ in range(2)]
                assert found == [first, first - 1], (body, found)
            throttle = {"key": "t", "max_burst": 9, "count_per_period": 1, "period": 86400}
            assert [post(one, token, "/throttle", throttle)[1]["remaining"] for _ in range(2)] == [8, 7]
        assert post(one, "acme-token", "/v1/keys/9%2F5000day%20fixed_window/k", method="GET")[1]["remaining"] == 7
        assert post(one, "ops-token", "/v1/keys/9%2F5000day%20fixed_window/acme%2Fk", method="GET")[1]["remaining"] == 7
        assert post(one, "acme-token", "/v1/keys/9%2F5000day%20fixed_window/k", method="DELETE")[1] == {"reset": True}
        assert post(one, "acme-token", "/v1/keys/9%2F5000day%20fixed_window/k", method="GET")[1]["remaining"] == 9
        for token in ("beta-token", "plain-token"):
            assert post(one, token, "/v1/take", {**take, "mode": "peek"})[1]["remaining"] == 7


def what_is_given_back_is_the_tenants():
    with serving() as one, users(one, *TENANTS, "ops") as (acme, beta, plain, ops):
        for client in (acme, beta, plain):
            assert left(client.ask("WEIR.TAKE", "k", LIMIT, 5)) == 4 and left(client.ask("CL.THROTTLE", "k", 8, 1, 86400, 5)) == 4
        assert left(acme.ask("WEIR.REFUND", "k", LIMIT, 2)) == 6 and left(acme.ask("CL.THROTTLE", "k", 8, 1, 86400, -2)) == 6
        assert acme.ask("WEIR.RESET", "beta", LIMIT) == 0 and acme.ask("WEIR.RESET", "Beta.b/k", LIMIT) == 0
        for client in (beta, plain):
            assert left(client.ask("WEIR.PEEK", "k", LIMIT, 0)) == 4 and left(client.ask("CL.THROTTLE", "k", 8, 1, 86400, 0)) == 4
        assert ops.ask("WEIR.RESET", "acme/k", LIMIT) == 1
        assert left(acme.ask("WEIR.PEEK", "k", LIMIT, 0)) == 9


def holds_are_the_tenants():
    with serving() as one, users(one, *TENANTS, "ops") as (acme, beta, plain, ops):
        for client in (acme, beta, plain):  # the same id
            assert left(client.ask("WEIR.HOLD", "h", "k", LIMIT, 4, 60000)) == 5
        for client in (acme, beta):
            assert client.ask("WEIR.SETTLE", "h", 1)[3] == 3
        assert left(plain.ask("WEIR.PEEK", "k", LIMIT, 0)) == 5
        assert plain.ask("WEIR.RELEASE", "h")[3] == 4
        assert left(acme.ask("WEIR.HOLD", "i" * 64, "k", LIMIT, 4, 60000)) == 4
        assert beta.refusal("WEIR.RELEASE", "i" * 64).startswith("NOHOLD ")
        assert acme.ask("WEIR.RELEASE", "i" * 64)[3] == 4
        assert left(acme.ask("WEIR.HOLD", "j", "k", "@by-user", 4, 60000)) == 5
        assert ops.ask("WEIR.RELEASE", "acme/j")[3] == 4
        assert acme.refusal("WEIR.HOLD", "l", "k" * 252, LIMIT, 4, 60000).startswith("ERR the key is too long")


def what_tenants_share_is_not_for_them():
    with serving() as one, users(one, "acme", "ops") as (acme, ops):
        for words in (("WEIR.LIVE",), ("CONFIG", "GET", "*"), ("WEIR.CHANGE", "by-user", "1/s")):
            assert "not for users with a key_prefix, and acme has acme/" in acme.refusal(*words), words
            assert not isinstance(ops.answer(*words), str) or not ops.answer(*words).startswith("NOPERM"), words
        for path in ("/metrics", "/v1/live", "/v1/live/key?user=ann"):
            assert post(one, "acme-token", path, method="GET")[0] == 403, path


def long_keys_are_errors():
    with serving() as one, users(one, "acme", "plain") as (acme, plain):
        key = "k" * 32764
        assert left(plain.ask("WEIR.TAKE", key, LIMIT)) == 8
        for words in (("WEIR.TAKE", key, LIMIT), ("CL.THROTTLE", key, 8, 1, 86400)):
            assert "with the user's key_prefix" in acme.refusal(*words), words[0]
        assert acme.ask("WEIR.CHECK", "user", "k" * 8000)[2] == 8  # the longest that a policy accepts
        # Many that fit, one after the other, and together.
        found = acme.pipeline([("WEIR.TAKE", "k" * 16000 + str(i % 2), LIMIT) for i in range(8)])
        assert [left(reply) for reply in found] == [8, 8, 7, 7, 6, 6, 5, 5], found


def top_keys_show_the_prefix():
    with serving() as one, users(one, "acme", "ops") as (acme, ops):
        for _ in range(3):
            acme.ask("WEIR.CHECK", "ip", "10.0.0.1")
        live = json.loads(ops.ask("WEIR.LIVE"))
        by_ip = next(limit for limit in live["limits"] if limit["name"] == "by-ip")
        assert [row["key"] for row in by_ip["top"]["busy"]] == ["acme/ip=10.0.0.1"], by_ip["top"]


def requests_that_wait_are_the_tenants():
    """Each tenant has the full limit; its second request would have to wait for a day."""
    policy = "limits:\n  - {name: queue, key: user, limit: 1/day leaky queue 3, wait: 1s}\n"
    with serving(policy) as one, users(one, *TENANTS) as clients:
        for client in clients:
            for words in (("WEIR.CHECK", "user", "ann", "WAIT", 1000), ("WEIR.TAKE", "k", "1/day leaky queue 3", 1, "WAIT", 1000)):
                assert [reply[0] for reply in client.pipeline([words] * 2)] == [1, 0], words
        for token in ("acme-token", "beta-token", "plain-token"):
            body = {"attributes": {"user": "bob"}, "wait": "1s"}
            assert [post(one, token, "/v1/check", body)[0] for _ in range(2)] == [200, 429], token


def with_redis():
    with redis() as server, serving(POLICY, "--store", server.url) as one, \
            users(one, *TENANTS) as clients:
        for client in clients:
            assert [left(reply) for reply in client.pipeline([("WEIR.TAKE", "k", LIMIT)] * 2)] == [8, 7]
            assert [reply[2] for reply in client.pipeline([("WEIR.CHECK", "ip", "10.0.0.1")] * 2)] == [8, 7]
            assert left(client.ask("WEIR.HOLD", "h", "k", LIMIT, 4, 60000)) == 3
            assert client.ask("WEIR.RELEASE", "h")[3] == 4


TESTS = [
    ("commands count for the tenant", commands_count_for_the_tenant),
    ("checks count for the tenant", checks_count_for_the_tenant),
    ("Envoy's form counts for the tenant", envoys_form_counts_for_the_tenant),
    ("HTTP counts for the tenant", http_counts_for_the_tenant),
    ("what is given back is the tenant's", what_is_given_back_is_the_tenants),
    ("holds are the tenant's", holds_are_the_tenants),
    ("what tenants share is not for them", what_tenants_share_is_not_for_them),
    ("requests that wait are the tenant's", requests_that_wait_are_the_tenants),
    ("long keys are errors", long_keys_are_errors),
    ("top keys show the prefix", top_keys_show_the_prefix),
] + ([] if toy.IS_TOY else [("with Redis", with_redis)])

if __name__ == "__main__":
    sys.exit(run(TESTS))
