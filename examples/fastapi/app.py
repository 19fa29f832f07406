"""A FastAPI service that calls Weir for each request, over persistent connections.

    weir serve --config examples/proxies/weir.yaml
    uvicorn --app-dir examples/fastapi --no-proxy-headers app:app

Behind a proxy, use --forwarded-allow-ips instead, with the address of the proxy whose X-Forwarded-For uvicorn shall trust."""

import asyncio
import os

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

app = FastAPI()
WAIT_MS = int(os.environ.get("WEIR_WAIT_MS", "0"))  # how long Weir may hold a response back for a limit that delays; 0: not at all
# Each response that Weir holds back takes a connection.
weir = httpx.AsyncClient(base_url=os.environ.get("WEIR", "http://127.0.0.1:8080"), timeout=0.5 + WAIT_MS / 1000,
                         limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))
FAILS_OPEN = os.environ.get("WEIR_FAIL", "open") != "closed"  # what to do if Weir is down
INTERNAL = ("limits", "shadow_denied")  # not for clients: they tell how many other limits there are
HEADERS = ("ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


async def check(attributes):
    """Returns the response and the decision in it. Both are None if Weir is down. The decision is None if Weir returns an error."""
    try:
        wait = {"wait": f"{WAIT_MS}ms"} if WAIT_MS > 0 else {}
        response = await weir.post("/v1/check", json={"attributes": attributes, **wait})
        decision = response.json()
    except (httpx.HTTPError, ValueError):
        return None, None
    if not isinstance(decision, dict) or "allowed" not in decision:
        decision = None
    # If a limit fails closed, the response is a 503 with "allowed": false: a decision, not an outage.
    return (None, None) if decision is None and response.status_code >= 500 else (response, decision)


@app.middleware("http")
async def limit(request: Request, call_next):
    attributes = {"ip": request.client.host, "method": request.method, "path": request.url.path}
    if "x-api-key" in request.headers:
        attributes["api_key"] = request.headers["x-api-key"]
    checked, decision = await check(attributes)
    if checked is None:
        return await call_next(request) if FAILS_OPEN else Response(status_code=503, headers={"retry-after": "1"})
    limits = {name: checked.headers[name] for name in HEADERS if name in checked.headers}
    if decision is None or not decision["allowed"]:  # a request that Weir cannot decide is denied, too
        problem = {name: value for name, value in checked.json().items() if name not in INTERNAL}
        return JSONResponse(problem, checked.status_code, limits, "application/problem+json")
    await asyncio.sleep(decision["delay_ns"] / 1e9)  # the delay of limits with a queue; 0 if Weir has waited already
    response = await call_next(request)
    response.headers.update(limits)
    return response


@app.get("/{page}")
@app.post("/orders/{order}")
async def hello():
    return {"hello": "world"}
