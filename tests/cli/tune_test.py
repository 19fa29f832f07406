#!/usr/bin/env python3
"""weir tune: proposals that check-config accepts, and clear errors.

    tune_test.py WEIR MAKE_ACCESS_LOG"""
# Covers: src/cli/tune.c, src/cli/tune_log.c, src/cli/tune_plot.c, src/cli/tune_report.c, src/cli/tune_size.c, src/cli/tune_wish.c

import json
import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

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
        self.assertEqual(code, 4)
        self.assertIn("and the last waits 4 s: longer than you wish. An outflow of 110/s is enough.", out)
        self.assertEqual(tune(*words, "--outflow", "110/s")[0], 0)
        self.assertEqual(tune(*words, "--outflow", "109/s")[0], 4)

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
            self.assertIn(f"{missing} is missing; --inflow, --outflow and --wait go together", err)
        for words, message in ((("--json=1",), '"--json": this option takes no value'), (("a.log", "--wish"), "--wish needs a value")):
            code, out, err = tune(*words)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(message, err)


class Log(Folder):
    """On a generated log of two days, with an attack of ten minutes."""

    @classmethod
    def setUpClass(cls):
        cls.logs = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.logs.cleanup)
        cls.log = os.path.join(cls.logs.name, "access.log")
        with open(cls.log, "wb") as file:
            subprocess.run([MAKER, "--lines", "20000", "--format", "plan"], stdout=file, stderr=subprocess.DEVNULL, check=True,
                           timeout=PATIENCE_S)

    def propose(self, *words, code=0):
        found, out, err = tune(self.log, *words, "--json")
        self.assertEqual((found, err), (code, ""), out)
        return json.loads(out)

    def test_a_share_of_the_clients(self):
        found = self.propose("--wish", "denied_clients <= 1%")
        chosen, held_out = found["chosen_by"], found["held_out"]
        self.assertEqual(found["name"], "per-client")
        self.assertTrue(chosen["keeps_wish"])
        self.assertLessEqual(chosen["clients_denied"] * 100, chosen["clients"])
        self.assertEqual(chosen["requests"] + held_out["requests"], 20000)
        self.assertEqual(held_out["keeps_wish"], held_out["clients_denied"] * 100 <= held_out["clients"])
        # the replay is of the limit alone, from an empty table, so the estimate must be exact
        best = [point for point in found["curve"] + found["alternatives"] if point["limit"] == found["limit"]][0]
        for name in ("clients_denied", "denied", "requests"):
            self.assertEqual(best[name], chosen[name], name)
        rates = [point["count"] / point["period_ns"] for point in found["curve"]]
        bursts = [point["burst"] for point in found["curve"]]
        self.assertEqual(rates, sorted(rates))
        self.assertEqual(bursts, sorted(bursts, reverse=True))
        self.assertGreater(len(rates), 10)

    def test_a_share_of_the_requests(self):
        for words in ((), ("--key", "ip,user"), ("--key", ""), ("--wish", "denied_clients <= 2%")):
            found = self.propose("--wish", "denied <= 0.5%", *words)
            chosen = found["chosen_by"]
            self.assertTrue(chosen["keeps_wish"])
            self.assertGreater(chosen["denied"], 0)
            self.assertLessEqual(chosen["denied"] * 1000, chosen["requests"] * 5)
            self.assertEqual(found["held_out"]["denied"] * 1000 <= found["held_out"]["requests"] * 5
                             and (len(words) < 2 or words[0] != "--wish"
                                  or found["held_out"]["clients_denied"] * 50 <= found["held_out"]["clients"]),
                             found["held_out"]["keeps_wish"])
            best = [point for point in found["curve"] + found["alternatives"] if point["limit"] == found["limit"]][0]
            self.assertEqual(best["denied"], chosen["denied"])
            self.assertTrue(all(point["keeps_wish"] and point["denied"] * 1000 <= point["requests"] * 5
                                for point in found["curve"]))
        self.assertIn("lets all clients together take", tune(self.log, "--wish", "denied <= 0.5%", "--key", "")[1])

    def test_an_attack(self):
        bad = "2026-03-02T14:00:00Z..2026-03-02T14:10:00Z"
        found = self.propose("--wish", "denied_clients <= 2%", "--bad", bad)
        self.assertGreater(found["chosen_by"]["bad_denied"] * 2, found["chosen_by"]["bad_requests"])
        for point in found["curve"]:
            if point["keeps_wish"]:
                self.assertLessEqual(point["bad_denied"], found["chosen_by"]["bad_denied"] * 10 // 9)

    def test_an_attack_alone_is_a_wish(self):
        bad = ("--bad", "2026-03-02T14:00:00Z..2026-03-02T14:10:00Z")
        found = self.propose(*bad)
        self.assertEqual(found["wishes"], ["denied_clients <= 0%"])
        self.assertEqual({**found, "wishes": []}, {**self.propose("--wish", "denied_clients <= 0%", *bad), "wishes": []})
        self.assertEqual(found["chosen_by"]["clients_denied"], 0)
        self.assertGreater(found["chosen_by"]["bad_denied"], 0)

    def test_never_more_passes(self):
        found = self.propose("--wish", "passed <= 6/s")
        self.assertEqual(found["limit"], "6/s sliding_log")
        self.assertEqual(found["chosen_by"]["most_passed"], 6)
        found = self.propose("--wish", "passed <= 6/s", "--wish", "p95_wait <= 2s", "--hold-out", "0")
        self.assertRegex(found["limit"], "^6/s leaky queue [0-9]+$")
        self.assertNotIn("held_out", found)
        self.assertLessEqual(found["chosen_by"]["most_passed"], 6)
        self.assertTrue(found["chosen_by"]["keeps_wish"])
        self.assertGreater(found["chosen_by"]["longest_wait_ns"], 0)

    def test_waits(self):
        found = self.propose("--wish", "p99_wait <= 200ms")
        chosen = found["chosen_by"]
        self.assertEqual(chosen["denied"], 0)
        self.assertLessEqual(chosen["waited_longer"] * 100, chosen["requests"])

    def test_the_proposal_is_a_good_policy(self):
        for words in (("denied_clients <= 1%",), ("denied_clients <= 1%", "--key", "ip,user"), ("passed <= 6/s",),
                      ("p99_wait <= 200ms",)):
            path = os.path.join(self.folder, "written.yaml")
            code, out, err = tune(self.log, "--write", path, "--wish", *words)
            self.assertEqual((code, err), (0, ""))
            with open(path, encoding="utf-8") as file:
                policy = file.read()
            self.assertTrue(out.endswith("\n" + policy))
            self.assert_good_policy(policy)
            self.assertIn("mode: shadow", policy)
            self.assertIn(policy.split("limit: ")[1].split("\n")[0], out.split("\n")[0])

    def test_the_curve_as_a_picture(self):
        path = os.path.join(self.folder, "curve.svg")
        for wish in ("denied_clients <= 1%", "passed <= 6/s", "passed <= 1/s", "p99_wait <= 200ms"):
            found = self.propose("--wish", wish, "--svg", path)
            picture = ElementTree.parse(path).getroot()
            space = "{http://www.w3.org/2000/svg}"
            circles = picture.findall(f"{space}circle")
            self.assertEqual([circle.find(f"{space}title").text for circle in circles],
                             [point["limit"] for point in found["curve"]])
            self.assertEqual([circle.get("class") != "misses" for circle in circles],
                             [point["keeps_wish"] for point in found["curve"]])
            for circle in circles:
                self.assertTrue(70 <= int(circle.get("cx")) <= 690 and 50 <= int(circle.get("cy")) <= 370)
            self.assertEqual(picture.find(f"{space}text").text, f"{found['name']}: {found['limit']}")

    def test_a_limit_of_a_policy(self):
        policy = self.write("policy.yaml", """\
limits:
  - {name: everyone, limit: 1000000/s}
  - name: '1/odd:name'
    mode: shadow
    match: {path: /login}
    key: [ip]
    limit: 5/min
    overrides:
      - {when: {plan: gold}, limit: 100/s}
""")
        words = ("--policy", policy, "--limit", "1/odd:name", "--wish", "denied_clients <= 5%", "--map", "plan=http_x_plan")
        text = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" ' \
               '"$http_user_agent" $request_time "$http_x_plan"'
        found = self.propose(*words, "--format", text)
        with open(self.log, encoding="utf-8") as file:
            lines = [line for line in file if '"POST /login ' in line]
        gold = sum(line.endswith('"gold"\n') for line in lines)
        self.assertGreater(gold, 0)
        self.assertEqual((found["applies"], found["overridden"]), (len(lines) - gold, gold))
        self.assertEqual(found["chosen_by"]["requests"] + found["held_out"]["requests"], len(lines) - gold)
        code, out, _ = tune(self.log, *words, "--format", text)
        self.assertEqual(code, 0)
        self.assertIn("change the limit in line 3", out)
        self.assert_good_policy(out[out.index("limits:\n"):])

    def test_the_output_is_the_same_each_time(self):
        words = (self.log, "--wish", "denied_clients <= 1%")
        self.assertEqual(tune(*words), tune(*words))

    def test_a_log_that_does_not_fit_is_sampled(self):
        path = os.path.join(self.folder, "large.log")
        with open(path, "wb") as file:
            subprocess.run([MAKER, "--lines", "550000", "--clients", "200000"], stdout=file, stderr=subprocess.DEVNULL,
                           check=True, timeout=PATIENCE_S)
        code, out, err = tune(path, "--wish", "denied_clients <= 1%", "--memory", "16MB", "--json")
        self.assertEqual((code, err), (0, ""))
        found = json.loads(out)
        self.assertGreater(found["clients_sampled_one_of"], 1)
        self.assertLessEqual(found["memory_bytes"], 16000000)
        self.assertEqual(found["applies"], 550000)
        code, out, err = tune(path, "--wish", "p99_wait <= 1s", "--memory", "16MB")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("the requests of one key need more memory than --memory", err)

    def test_wrong_usage(self):
        wish = ("--wish", "denied_clients <= 1%")
        for words, message in (
                ((), "name a log, or use --inflow"),
                ((self.log,), "--wish is missing; use for example"),
                ((self.log, "--wish", "happiness"), '"happiness": use denied_clients <= 0.1%, denied <= 0.1%, passed'),
                ((self.log, "--wish", "denied_clients <= 100%"), "use a share below 100%"),
                ((self.log, "--wish", "denied_clients <= 0.1"), "use a share below 100%"),
                ((self.log, "--wish", "denied_clients <= -1%"), "use a share below 100%"),
                ((self.log, "--wish", "passed <= 0/s"), "use a rate of at most 16000000"),
                ((self.log, "--wish", "passed <= 99999999999999999999/s"), "use a rate of at most 16000000"),
                ((self.log, "--wish", "p101_wait <= 1s"), "use denied_clients <= 0.1%"),
                ((self.log, "--wish", "p99_wait <= 1fortnight"), "use a duration of at most a day"),
                ((self.log, *wish, *wish), "denied_clients is given twice"),
                ((self.log, "--wish", "denied <= 100%"), "use a share below 100%"),
                ((self.log, "--wish", "denied <= 1%", "--wish", "denied <= 2%"), "denied is given twice"),
                ((self.log, "--wish", "denied <= 1%", "--wish", "p99_wait <= 1s"), "tune two limits, one after the other"),
                ((self.log, *wish, "--wish", "passed <= 5/s"), "tune two limits, one after the other"),
                ((self.log, "--wish", "passed <= 5/s", "--bad", "2026-03-02..2026-03-03"), "use FROM..TO, such as"),
                ((self.log, "--wish", "passed <= 5/s", "--bad", "2026-03-02T00:00:00Z..2026-03-03T00:00:00Z"),
                 "--bad needs the wish denied_clients"),
                ((self.log, *wish, "--bad", "2026-03-03T00:00:00Z..2026-03-02T00:00:00Z"), "use FROM..TO"),
                ((self.log, *wish, "--hold-out", "91"), "use a number of percent from 0 to 90"),
                ((self.log, *wish, "--horizon", "1ms"), "use a duration from 1s to 7day"),
                ((self.log, *wish, "--memory", "1MB"), "use a size from 16MB to 64GB"),
                ((self.log, *wish, "--memory", "99999999999999999999GB"), "use a size from 16MB to 64GB"),
                ((self.log, *wish, "--key", "ip]}"), "use names of attributes"),
                ((self.log, *wish, "--tz", "Mars"), "use an offset from UTC such as +02:00"),
                ((self.log, *wish, "--reorder", "2hour"), "use a duration of at most 1hour"),
                ((self.log, *wish, "--map", "plan"), "use TO=FROM"),
                ((self.log, *wish, "--policy", "x.yaml"), "--policy and --limit go together"),
                ((self.log, *wish, "--policy", "x.yaml", "--limit", "a", "--key", "ip"), "--key is for tuning without a policy"),
                ((self.log, self.log, *wish), "are the same file; name each log once"),
                ((self.log, *wish, "--write", self.log), "weir tune also reads this file; use another file"),
                ((self.log, *wish, "--svg", self.log), "weir tune also reads this file; use another file"),
                ((self.log, *wish, "--svg", "x", "--write", "x"), "--write has the same file"),
                ((self.log, *wish, "--inflow", "5/s"), "--inflow is for sizing without a log"),
                ((self.log, *wish, "--wsh", "x"), "did you mean --wish?"),
                (("-", *wish), "not a regular file; tune reads a log twice"),
                (("/dev/null", *wish), "not a regular file"),
                ((self.folder, *wish), "not a regular file")):
            code, out, err = tune(*words)
            if not words:
                self.assertIn("usage: weir tune LOG", err)
                continue
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(message, err)

    def test_what_cannot_be_tuned(self):
        wish = ("--wish", "denied_clients <= 1%")
        policy = self.write("policy.yaml", "limits:\n  - {name: a, limit: 5/s}\n  - {name: b, key: [tenant], limit: 5/s}\n")
        wrong = self.write("wrong.yaml", "limits:\n  - {name: a, limit: 5/fortnight}\n")
        empty, noise = self.write("empty.log", ""), self.write("noise.log", "\x00\n" * 1000)
        for words, message in (
                (("/nowhere/access.log", *wish), "/nowhere/access.log"),
                ((empty, *wish), "no request could be read; bad lines: 0"),
                ((noise, *wish), "noise.log"),
                ((self.log, *wish, "--policy", "/nowhere.yaml", "--limit", "a"), "/nowhere.yaml"),
                ((self.log, *wish, "--policy", wrong, "--limit", "a"), "5/fortnight"),
                ((self.log, *wish, "--policy", policy, "--limit", "aa"), "the policy has no such limit; did you mean a?"),
                ((self.log, *wish, "--policy", policy, "--limit", "a"), "the limit a has no key, so it cannot tell clients apart"),
                ((self.log, *wish, "--policy", policy, "--limit", "b"), "the limit b applies to no request of the log"),
                ((self.log, *wish, "--key", "tenant"), "applies to no request of the log"),
                ((self.log, "--wish", "passed <= 5/s", "--key", "ip"), "the limit per-client has a key, so it does not bound"),
                ((self.log, *wish, "--bad", "2027-01-01T00:00:00Z..2027-01-02T00:00:00Z"), "no request before the part held out"),
                ((self.log, *wish, "--bad", "2026-01-01T00:00:00Z..2027-01-02T00:00:00Z"), "all are held out or bad"),
                ((self.log, *wish, "--write", "/nowhere/policy.yaml"), "No such file or directory")):
            code, out, err = tune(*words)
            self.assertEqual((code, out), (1, ""), words)
            self.assertIn(message, err)


if __name__ == "__main__":
    unittest.main()
