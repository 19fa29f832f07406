#!/usr/bin/env python3
"""The generator of access logs: the same bytes everywhere, in the order of completion, with everybody whom it promises.

    make_access_log_test.py MAKE_ACCESS_LOG"""

import hashlib
import json
import re
import subprocess
import sys
import unittest
from collections import Counter
from datetime import datetime

MAKER = sys.argv.pop(1)
TIMED = re.compile(r'(\S+) - (\S+) \[([^]]+)\] "(GET|POST|PUT) (/\S*) HTTP/1\.1" (\d{3}) (\d+) "-" "([^"]+)" (\d+\.\d{3})')


def make(*options):
    done = subprocess.run([MAKER, *map(str, options)], capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


class MakeAccessLog(unittest.TestCase):
    def test_the_bytes_are_the_same_on_every_machine(self):
        for options, digest in (
                (("--lines", 1000), "8c9a4f34763e6470"),
                (("--lines", 20000, "--days", 7, "--seed", 9, "--format", "json"), "c438736d8e7e4275")):
            code, out, err = make(*options)
            self.assertEqual(code, 0, err)
            self.assertEqual(hashlib.sha256(out).hexdigest()[:16], digest)
        self.assertNotEqual(make("--seed", 1)[1], make("--seed", 2)[1])

    def test_even_visits_come_from_more_clients(self):
        clients = {even: len({line.split(b" ")[0] for line in make("--lines", 20000, "--clients", 10000, "--even", even)[1].splitlines()})
                   for even in (0, 50, 100)}
        self.assertGreater(clients[50], clients[0] * 3 // 2)
        self.assertGreater(clients[100], clients[50])

    def test_a_day_has_everybody(self):
        _, out, err = make("--lines", 50000, "--days", 1)
        lines = [TIMED.fullmatch(line) for line in out.decode().splitlines()]
        self.assertEqual(len(lines), 50000)
        self.assertTrue(all(lines))
        stamps = [datetime.strptime(line[3], "%d/%b/%Y:%H:%M:%S %z") for line in lines]
        self.assertEqual(stamps, sorted(stamps))
        clients = Counter(line[1] for line in lines)
        attacks = [stamp for line, stamp in zip(lines, stamps) if line[1].startswith("198.51.100.")]
        self.assertEqual(len(attacks), 5000)
        self.assertEqual({(stamp.hour, stamp.minute // 10) for stamp in attacks}, {(14, 0)})
        self.assertIn("attack from 2026-03-02T14:00:00Z to 14:10:00Z", err)
        self.assertEqual(clients["203.0.113.66"], 2500)
        self.assertEqual({line[2] for line in lines if line[2] != "-"},
                         {"billing", "mobile-sync", "partner-north", "partner-south", "warehouse"})
        visitors = sorted((n for client, n in clients.items() if client.startswith(("10.", "2001:db8:"))), reverse=True)
        self.assertEqual(sum(visitors), 35000)
        self.assertGreater(visitors[0], 20 * visitors[len(visitors) // 10])  # a heavy tail
        hours = Counter(stamp.hour for line, stamp in zip(lines, stamps) if line[1].startswith("10."))
        self.assertGreater(hours[19], 5 * hours[4])  # a daily rhythm

    def test_formats(self):
        heads = {}
        for form in ("combined", "timed", "plan", "json"):
            _, out, _ = make("--lines", 1000, "--format", form)
            heads[form] = out.decode().splitlines()
        for combined, timed, plan, text in zip(*heads.values()):
            self.assertTrue(timed.startswith(combined + " "))
            self.assertIn(plan[len(timed):], (' "free"', ' "gold"'))
            line = json.loads(text)
            self.assertEqual(f"{line['remote_addr']} - {line['remote_user'] or '-'} [", combined.split("[")[0] + "[")
            self.assertEqual(f"{line['request_time']:.3f}", timed.split()[-1])
            self.assertEqual(f' "{line["plan"]}"', plan[len(timed):])

    def test_wrong_usage(self):
        for options, message in ((("--lines", 999), "--lines 999: use a number from 1000 to 1000000000"),
                                 (("--lines", "many"), "--lines many: use a number"),
                                 (("--days", 28), "--days 28: use a number from 1 to 27"),
                                 (("--format", "csv"), "--format csv: use combined, timed, plan or json"),
                                 (("--seed",), "--seed : use a number"), (("--frob", 1), "usage: ")):
            code, out, err = make(*options)
            self.assertEqual((code, out), (2, b""))
            self.assertIn(message, err)


if __name__ == "__main__":
    unittest.main()
