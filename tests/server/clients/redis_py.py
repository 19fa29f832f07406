"""redis_py.py: runs the requests of clients_test.py through redis-py, line by line."""

import sys

import redis


def show(value):
    if isinstance(value, redis.ResponseError):
        return "-" + str(value).encode().hex()
    if isinstance(value, bool):
        return "#1" if value else "#0"
    if isinstance(value, int):
        return f":{value}"
    if value is None:
        return "_"
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return "$" + value.hex()
    return " ".join([f"*{len(value)}", *map(show, value)])


def words(line):
    return [bytes.fromhex(word) for word in line.split(" ")[1:]]


def open_client(where, name, password):
    options = {"client_name": name, "socket_timeout": 60}
    if password:
        options["username"], options["password"] = password.split(":")
    if "/" in where:
        return redis.Redis(unix_socket_path=where, **options)
    host, port = where.split(":")
    return redis.Redis(host=host, port=int(port), **options)


def answer(client, line):
    verb, _, rest = line.partition(" ")
    try:
        if verb == "call":
            return [show(client.execute_command(*words(line)))]
        pipeline = client.pipeline(transaction=verb == "transaction")
        for _ in range(int(rest)):
            pipeline.execute_command(*words(sys.stdin.readline().rstrip("\n")))
        return [show(value) for value in pipeline.execute(raise_on_error=False)]
    except redis.ResponseError as error:
        return [show(error)]
    except redis.RedisError as error:
        return [f"!{type(error).__name__}: {error}"]


def main(where, name, password=""):
    client = open_client(where, name, password)
    for line in sys.stdin:
        print("\n".join(answer(client, line.rstrip("\n"))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
