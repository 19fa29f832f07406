"""A FastAPI service that asks Weir about each request, over persistent connections.

    weir serve --config examples/proxies/weir.yaml
    cd examples/fastapi && uvicorn app:app --no-proxy-headers

Behind a proxy, --forwarded-allow-ips says whose X-Forwarded-For uvicorn believes."""

import os

import httpx
from fastapi import FastAPI, Request, Response

app = FastAPI()
weir = httpx.AsyncClient(base_url=os.environ.get("WEIR", "http://127.0.0.1:8080"), timeout=0.5)
HEADERS = ("ratelimit", "ratelimit-policy", "retry-after")


@app.middleware("http")
async def limit(request: Request, call_next):
    attributes = {"ip": request.client.host, "method": request.method, "path": request.url.path}
    if "x-api-key" in request.headers:
        attributes["api_key"] = request.headers["x-api-key"]
    try:
        answer = await weir.post("/v1/check", json={"attributes": attributes})
    except httpx.TransportError:
        return await call_next(request)  # if Weir is down, all requests get in
    limits = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    if 400 <= answer.status_code < 500:  # denied, or cannot be decided: malformed requests get no further
        return Response(answer.content, answer.status_code, limits, "application/problem+json")
    response = await call_next(request)
    response.headers.update(limits)
    return response


@app.get("/{page}")
@app.post("/orders/{order}")
async def hello():
    return {"hello": "world"}
