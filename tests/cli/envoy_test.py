#!/usr/bin/env python3
"""weir check-config and weir explain with configurations of Envoy's ratelimit service.

    envoy_test.py WEIR EXAMPLES"""
# Covers: src/cli/explain.c

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WEIR, EXAMPLES = sys.argv[1], Path(sys.argv[2])


def run(*words):
    done = subprocess.run([WEIR, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


class Envoy(unittest.TestCase):
    def test_a_directory_is_good(self):
        self.assertEqual(run("check-config", EXAMPLES), (0, f"{EXAMPLES}: OK: limits: 8, overrides: 0\n", ""))

    def test_a_file_is_good(self):
        file = EXAMPLES / "mail.yaml"
        self.assertEqual(run("check-config", file), (0, f"{file}: OK: limits: 2, overrides: 0\n", ""))

    def test_all_that_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder) / "a.yaml", Path(folder) / "b.yaml"
            first.write_text("domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: moment}\n", encoding="utf-8")
            second.write_text("domain: a\nlimit: 5\n", encoding="utf-8")
            code, out, err = run("check-config", folder)
        self.assertEqual((code, out), (1, ""))
        lines = err.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[0], f"{first}:4:24: unknown unit 'moment'; use second, minute, hour, day, week, month or year")
        self.assertTrue(lines[1].startswith(f"{second}:2:1: unknown key 'limit' in"))
        self.assertEqual(lines[2], f"{second}:1:1: duplicate domain 'a'; it was first given in {first}:1")

    def test_one_descriptor(self):
        code, out, err = run("explain", EXAMPLES, "domain=shop", "plan=gold", "path=/v1/exports/7")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines()[-1],
                         "shop|plan_gold|path_/v1/exports/*: applies: 20/hour fixed_window, "
                         "one for all that match the pattern")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
