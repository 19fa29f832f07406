#!/usr/bin/env python3
"""weir check-config: the policy that a configuration file names, standard input, and diagnostics as JSON.

    check_config_test.py WEIR"""
# Covers: src/cli/check_config.c

import json
import os
import subprocess
import sys
import tempfile
import unittest

WEIR = os.path.abspath(sys.argv.pop(1))
PATIENCE_S = 60
GOOD = "limits:\n  - name: a\n    limit: 5/day\n"
WRONG = "limits:\n  - name: a\n    limit: 5/fortnight\n    kee: ip\n"


class CheckConfig(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def check(self, *words, text="", where=None):
        done = subprocess.run([WEIR, "check-config", *words], input=text, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False, cwd=where or self.folder)
        return done.returncode, done.stdout, done.stderr

    def test_the_policy_of_settings_is_checked(self):
        self.write("policy.yaml", GOOD)
        self.write("folder/a.yaml", GOOD)
        for policy, shown in (("policy.yaml", "policy.yaml"), ("folder", "folder"),
                              (os.path.join(self.folder, "policy.yaml"), os.path.join(self.folder, "policy.yaml"))):
            self.write("settings.yaml", f"keys: 1000\npolicy: {policy}\n")
            self.assertEqual(self.check("settings.yaml"),
                             (0, f"settings.yaml: OK: limits: 1, overrides: 0, of the policy {shown}\n", ""))
        for policy in ("policy.yaml", "folder/a.yaml"):
            self.write(policy, WRONG)
            self.write("settings.yaml", f"keys: 1000\npolicy: {os.path.dirname(policy) or policy}\n")
            code, out, err = self.check("settings.yaml")
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"{policy}:3:14: limit '5/fortnight'", err)

    def test_a_relative_path_is_tried_from_here_and_then_from_the_file(self):
        path = self.write("etc/settings.yaml", "keys: 1000\npolicy: policy.yaml\n")
        self.write("etc/policy.yaml", WRONG)
        for where in (self.folder, os.path.join(self.folder, "etc"), "/"):
            self.assertEqual(self.check(path, where=where)[0], 1)
        self.write("policy.yaml", GOOD)
        self.assertEqual(self.check(path)[0], 0)
        os.unlink(os.path.join(self.folder, "etc/policy.yaml"))
        os.unlink(os.path.join(self.folder, "policy.yaml"))
        code, _, err = self.check(path)
        self.assertEqual(code, 1)
        self.assertIn("policy.yaml", err)

    def test_limits_need_the_stores_of_the_settings(self):
        self.write("policy.yaml", GOOD + "    store: redis\n")
        self.write("settings.yaml", "keys: 1000\npolicy: policy.yaml\n")
        code, _, err = self.check("settings.yaml")
        self.assertEqual(code, 1)
        self.assertIn("the server has no Redis", err)

    def test_a_remote_policy_is_not_read(self):
        for url, shown in (("redis://u:secret@127.0.0.1:1/key", "redis://u:***@127.0.0.1:1/key"),
                           ("etcd://127.0.0.1:1/key", "etcd://127.0.0.1:1/key")):
            self.write("settings.yaml", f"policy: {url}\n")
            code, out, err = self.check("settings.yaml")
            self.assertEqual((code, err), (0, f"settings.yaml: note: policy: {shown}: not read; only policies in files are checked\n"))
            self.assertIn("settings.yaml: OK", out)

    def test_standard_input(self):
        self.assertEqual(self.check("-", text=GOOD), (0, "-: OK: limits: 1, overrides: 0\n", ""))
        code, out, err = self.check("-", text=WRONG)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("-:3:14: limit '5/fortnight'", err)
        self.assertEqual(self.check("-", "-")[0], 2)

    def test_diagnostics_for_programs(self):
        self.write("good.yaml", GOOD)
        self.write("wrong.yaml", WRONG)
        code, out, err = self.check("--json", "good.yaml", "wrong.yaml", "none.yaml", "-", text="keys: many\n")
        self.assertEqual((code, err), (1, ""))
        got = json.loads(out)
        self.assertEqual((got["files"][0]["limits"], got["files"][0]["overrides"]), (1, 0))
        self.assertEqual([(file["file"], file["is_good"]) for file in got["files"]],
                         [("good.yaml", True), ("wrong.yaml", False), ("none.yaml", False), ("-", False)])
        self.assertEqual(got["files"][0]["limits"], 1)
        places = [(one["file"], one["line"], one["column"], one["severity"]) for one in got["diagnostics"]]
        self.assertEqual([place[:2] for place in places],
                         [("wrong.yaml", 4), ("wrong.yaml", 3), ("none.yaml", 1), ("-", 1)])
        self.assertEqual(places[1], ("wrong.yaml", 3, 14, "error"))
        self.assertIn("unknown period", got["diagnostics"][1]["message"])
        self.assertTrue(got["diagnostics"][1]["hint"].startswith("use "), got)
        code, out, _ = self.check("--json", "-", text="policy: etcd://127.0.0.1:1/key\n")
        self.assertEqual((code, json.loads(out)["diagnostics"][0]["severity"]), (0, "note"))

    def test_comparison_for_programs(self):
        self.write("old.yaml", GOOD)
        self.write("new.yaml", GOOD.replace("5/day", "6/day"))
        code, out, err = self.check("--json", "--against", "old.yaml", "new.yaml")
        self.assertEqual((code, err), (0, ""))
        against = json.loads(out)["files"][0]["against"]
        self.assertEqual(len(against), 1)
        self.assertIn("6/day", against[0])

    def test_limits_that_cannot_be_leased_are_named(self):
        whys = {"few": ("5/s", "servers may hold fewer than 2 units; raise stranded or the limit"),
                "fast": ("2000/s burst 40", "the units that servers may hold are used in less than 2 ms; raise stranded"),
                "log": ("100/min sliding_log", "a sliding log keeps each event in Redis; use a sliding_counter"),
                "queue": ("100/s leaky queue 100", "it delays requests, which only one place can put in order"),
                "all": ("100/min fixed_window count all", "it counts denied requests, which Redis must see")}
        limits = dict({name: limit for name, (limit, _) in whys.items()}, leased="100/s burst 200")
        self.write("new.yaml", "limits:\n" + "".join(f"  - {{name: {name}, limit: {limit}, consistency: lease}}\n"
                                                    for name, limit in limits.items())
                   + "  - name: own\n    limit: 100/s\n    consistency: lease\n"
                     "    overrides: [{when: {p: x}, limit: 7/s}, {when: {p: y}, limit: 7/s, consistency: exact}]\n")
        exact = [f"{name} stays exact: {why}" for name, (_, why) in whys.items()]
        exact.append(f"own|p=x stays exact: {whys['few'][1]}")
        code, out, err = self.check("new.yaml")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines(), ["new.yaml: OK: limits: 7, overrides: 2"] + [f"  {line}" for line in exact])
        code, out, err = self.check("--json", "new.yaml")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["files"][0]["exact"], exact)

    def test_eventual_limits_are_named(self):
        whys = {"few": ("99/s", "servers may be ahead by less than 1 unit; raise ahead or the limit"),
                "log": ("1000/min sliding_log", "a sliding log keeps each event in Redis; use a sliding_counter"),
                "large": ("16384/min sliding_counter",
                          "servers cannot mirror sub-windows; use a sliding_counter without segments, of at most 16383"),
                "queue": ("100/s leaky queue 100", "it delays requests, which only one place can put in order"),
                "all": ("100/min fixed_window count all", "it counts denied requests, which Redis must see")}
        limits = dict({name: limit for name, (limit, _) in whys.items()}, good="100/s", counter="16383/min sliding_counter")
        self.write("new.yaml", "limits:\n" + "".join(f"  - {{name: {name}, limit: {limit}, consistency: eventual}}\n"
                                                    for name, limit in limits.items())
                   + "  - {name: far, limit: 100/s, consistency: {eventual: {ahead: 50%}}}\n")
        exact = [f"{name} stays exact: {why}" for name, (_, why) in whys.items()]
        far = "far may be exceeded by its whole limit: with ahead 50%, 3 servers are enough; lower ahead"
        code, out, err = self.check("new.yaml")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines(), ["new.yaml: OK: limits: 8, overrides: 0"] + [f"  {line}" for line in exact + [far]])
        code, out, _ = self.check("--json", "new.yaml")
        self.assertEqual((code, json.loads(out)["files"][0]["exact"], json.loads(out)["files"][0]["ahead"]), (0, exact, [far]))

    def test_a_change_of_consistency_is_told(self):
        for name, few, many in (("old", "", ""), ("new", ", consistency: lease", ", consistency: lease")):
            self.write(f"{name}.yaml", f"limits:\n  - {{name: few, limit: 5/s{few}}}\n  - {{name: many, limit: 500/s{many}}}\n")
        told = ["few: kept: 5/s", "many: kept: 500/s; leased with up to 5% stranded, before exact"]
        code, out, _ = self.check("--against", "old.yaml", "new.yaml")
        self.assertEqual((code, out.splitlines()[3:5]), (0, [f"  {line}" for line in told]))
        code, out, _ = self.check("--json", "--against", "old.yaml", "new.yaml")
        self.assertEqual((code, json.loads(out)["files"][0]["against"]), (0, told))
        told[1] = ("many: kept: 500/s; exact, before leased with up to 5% stranded; "
                   "units that servers hold are not spent any more, and count as used")
        code, out, _ = self.check("--against=new.yaml", "old.yaml")
        self.assertEqual((code, out.splitlines()[2:4]), (0, [f"  {line}" for line in told]))

    def test_a_change_to_eventual_is_told(self):
        for name, how in (("old", "lease"), ("new", "{eventual: {sync: 1s, ahead: 2%}}")):
            self.write(f"{name}.yaml", f"limits:\n  - {{name: few, limit: 5/s, consistency: {how}}}\n"
                                       f"  - {{name: many, limit: 500/s, consistency: {how}}}\n")
        told = ["few: kept: 5/s", "many: kept: 500/s; eventual with up to 2% ahead, pushed every 1000ms, before leased with up to 5% stranded; "
                "units that servers hold are not spent any more, and count as used"]
        code, out, _ = self.check("--json", "--against", "old.yaml", "new.yaml")
        self.assertEqual((code, json.loads(out)["files"][0]["against"]), (0, told))
        told[1] = "many: kept: 500/s; leased with up to 5% stranded, before eventual with up to 2% ahead, pushed every 1000ms"
        code, out, _ = self.check("--json", "--against", "new.yaml", "old.yaml")
        self.assertEqual((code, json.loads(out)["files"][0]["against"]), (0, told))

    def test_wrong_usage(self):
        for words in ((), ("--json",), ("--against",), ("--against", "a"), ("--against", "a", "--against", "b", "c"), ("-x", "a")):
            code, out, err = self.check(*words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertTrue(err, words)


if __name__ == "__main__":
    unittest.main()
