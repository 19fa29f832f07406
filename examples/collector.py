#!/usr/bin/env python3
"""Receives the spans of weir serve, like an OpenTelemetry collector, and prints a line for each.

    collector.py HOST:PORT"""

import http.server
import json
import sys


def line_of(span):
    about = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
    told = " ".join(f"{name.removeprefix('rate_limiter.')}={about[name]}" for name in sorted(about))
    return f"{span['traceId']} under {span.get('parentSpanId', 'nothing')}: {span['name']} {told}"


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in body["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    print(line_of(span), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


host, port = sys.argv[1].rsplit(":", 1)
http.server.ThreadingHTTPServer((host, int(port)), Collector).serve_forever()
