"""A FastAPI service that asks Weir about each request, over persistent connections.

    weir serve --config examples/proxies/weir.yaml
    cd examples/fastapi && uvicorn app:app --no-proxy-headers

Behind a proxy, --forwarded-allow-ips says whose X-Forwarded-For uvicorn believes."""

import asyncio
import os

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

app = FastAPI()
WAIT_MS = int(os.environ.get("WEIR_WAIT_MS", "0"))  # how long Weir may hold back a request that a limit delays; 0: it does not
# Each request that Weir holds back has a connection.
weir = httpx.AsyncClient(base_url=os.environ.get("WEIR", "http://127.0.0.1:8080"), timeout=0.5 + WAIT_MS / 1000,
                         limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))
FAILS_OPEN = os.environ.get("WEIR_FAIL", "open") != "closed"  # what to do without an answer of Weir
OURS = ("limits", "shadow_denied")  # how many other limits there are does not concern visitors
HEADERS = ("ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


async def ask(attributes):
    """The answer, None in an outage, and the decision in it, None if Weir cannot decide the request."""
    try:
        wait = {"wait": f"{WAIT_MS}ms"} if WAIT_MS > 0 else {}
        answer = await weir.post("/v1/check", json={"attributes": attributes, **wait})
        decision = answer.json()
    except (httpx.HTTPError, ValueError):
        return None, None
    if not isinstance(decision, dict) or "allowed" not in decision:
        decision = None
    # A limit that fails closed answers 503 with "allowed": false, which is a decision and not an outage.
    return (None, None) if decision is None and answer.status_code >= 500 else (answer, decision)


@app.middleware("http")
async def limit(request: Request, call_next):
    attributes = {"ip": request.client.host, "method": request.method, "path": request.url.path}
    if "x-api-key" in request.headers:
        attributes["api_key"] = request.headers["x-api-key"]
    answer, decision = await ask(attributes)
    if answer is None:
        return await call_next(request) if FAILS_OPEN else Response(status_code=503, headers={"retry-after": "1"})
    limits = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    if decision is None or not decision["allowed"]:  # malformed requests get no further
        problem = {name: value for name, value in answer.json().items() if name not in OURS}
        return JSONResponse(problem, answer.status_code, limits, "application/problem+json")
    await asyncio.sleep(decision["delay_ns"] / 1e9)  # limits that shape say how long to wait; 0 if Weir has held it back
    response = await call_next(request)
    response.headers.update(limits)
    return response


@app.get("/{page}")
@app.post("/orders/{order}")
async def hello():
    return {"hello": "world"}
