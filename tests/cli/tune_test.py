#!/usr/bin/env python3
"""weir tune: proposals that check-config accepts, and clear errors.

    tune_test.py WEIR MAKE_ACCESS_LOG"""
# Covers: src/cli/tune.c, src/cli/tune_size.c

import json
import os
import subprocess
import sys
import tempfile
import unittest

WEIR, MAKER = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
PATIENCE_S = 60


def tune(*words, where=None):
    done = subprocess.run([WEIR, "tune", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, cwd=where)
    return done.returncode, done.stdout, done.stderr


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def assert_good_policy(self, text):
        done = subprocess.run([WEIR, "check-config", "-"], input=text, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)


class Size(Folder):
    def test_the_policy_is_good(self):
        for words in (("120/s", "100/s", "2s"), ("7/min", "90/hour", "1500ms"), ("1/s", "3/s", "1day"), ("9/s", "1/day", "1ms")):
            code, out, err = tune("--inflow", words[0], "--outflow", words[1], "--wait", words[2])
            self.assertEqual((code, err), (0, ""))
            self.assert_good_policy(out[out.index("limits:"):])
            self.assertIn(f"    wait: {words[2]}\n", out)
            self.assertTrue(out.startswith(words[1] + " leaky queue "), out)

    def test_the_limiter_agrees_with_the_arithmetic(self):
        code, out, _ = tune("--inflow=120/s", "--outflow=100/s", "--wait=2s", "--lasts=5s", "--json")
        found = json.loads(out)
        self.assertEqual(code, 0)
        self.assertEqual(found, {
            "limit": "100/s leaky queue 201", "wait_ns": 2000000000, "places": 201, "last_waits_ns": 2000000000,
            "drains_ns": 2010000000, "overflows": True, "passes": 1201, "denies_at_ns": 10008333334, "denied": 1,
            "denied_of": 6,
            "burst": {"lasts_ns": 5000000000, "requests": 600, "places_needed": 101, "would_wait_ns": 998333334,
                      "fits": True},
            "tried": {"requests": 1202, "allowed": 1201, "denied": 1, "denied_at_ns": 10008333334,
                      "longest_wait_ns": 2000000000}})

    def test_a_burst_that_is_too_long(self):
        words = ("--inflow", "120/s", "--wait", "2s", "--lasts", "20s")
        code, out, _ = tune(*words, "--outflow", "100/s")
        self.assertEqual(code, 1)
        self.assertIn("and the last waits 4 s: longer than you wish. An outflow of 110/s would do.", out)
        self.assertEqual(tune(*words, "--outflow", "110/s")[0], 0)
        self.assertEqual(tune(*words, "--outflow", "109/s")[0], 1)

    def test_what_cannot_be_tried_is_said(self):
        code, out, _ = tune("--inflow", "1000001/s", "--outflow", "1000000/s", "--wait", "1hour")
        self.assertEqual(code, 0)
        self.assertIn("Not tried: this needs more than 20000000 requests.", out)

    def test_wrong_usage(self):
        good = {"--inflow": "120/s", "--outflow": "100/s", "--wait": "2s"}
        for option, value, message in (
                ("--inflow", "120/fortnight", '--inflow "120/fortnight": use a rate such as 120/s or 90/min'),
                ("--inflow", "0/s", '--inflow "0/s": use a rate'),
                ("--inflow", "10/s burst 5", '--inflow "10/s burst 5": use a rate'),
                ("--outflow", "", '--outflow "": use a rate'),
                ("--wait", "2", '--wait "2": use whole milliseconds from 1ms to 1day, such as 2s'),
                ("--wait", "0s", '--wait "0s": use whole milliseconds'),
                ("--wait", "1us", '--wait "1us": use whole milliseconds'),
                ("--wait", "2day", '--wait "2day": use whole milliseconds'),
                ("--lasts", "9day", '--lasts "9day": use a duration of at most a week, such as 10s'),
                ("--lasts", "18446744073709551616s", "use a duration"),
                ("--outflow", "18446744073709551615/ns", "the queue would have more than 2^62 places"),
                ("--outflo", "1/s", '"--outflo": unknown option; did you mean --outflow?')):
            words = [word for pair in {**good, option: value}.items() for word in pair]
            code, out, err = tune(*words)
            self.assertEqual((code, out), (2, ""), (option, value))
            self.assertIn(message, err)
        for missing in good:
            code, out, err = tune(*[word for pair in good.items() if pair[0] != missing for word in pair])
            self.assertEqual((code, out), (2, ""))
            self.assertIn("usage: weir tune --inflow", err)


if __name__ == "__main__":
    unittest.main()
