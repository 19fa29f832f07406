"""rls_messages.py: messages of envoy.service.ratelimit.v3 and grpc.health.v1, as bytes, without generated code."""

import struct

SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
OK, OVER_LIMIT = 1, 2
SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK = range(1, 8)


def varint(number):
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def part(number, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def figure(number, value):
    return varint(number << 3) + varint(value)


def descriptor(*entries, limit=None, hits=None, gives_back=False):
    """Entries are "key=value". limit: requests per unit, and the unit."""
    encoded = b"".join(part(1, part(1, key) + part(2, value)) for key, _, value in (entry.partition("=") for entry in entries))
    if limit:
        encoded += part(2, figure(1, limit[0]) + figure(2, limit[1]))
    if hits is not None:
        encoded += part(3, figure(1, hits) if hits else b"")
    return encoded + (figure(4, 1) if gives_back else b"")


def request(domain, *descriptors, hits=0):
    return part(1, domain) + b"".join(part(2, one) for one in descriptors) + (figure(3, hits) if hits else b"")


def fields(message):
    """A list of (number, value); a value is an int, a float or bytes."""
    found, at = [], 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = read()
        if key & 7 == 0:
            found.append((key >> 3, read()))
        elif key & 7 == 1:
            found.append((key >> 3, struct.unpack_from("<d", message, at)[0]))
            at += 8
        else:
            n = read()
            assert key & 7 == 2 and at + n <= len(message), message
            found.append((key >> 3, message[at:at + n]))
            at += n
    return found


def status_of(message):
    """(code, requests per unit, unit, remaining, seconds until reset) of a DescriptorStatus; None: missing."""
    found = dict(fields(message))
    limit = dict(fields(found[2])) if 2 in found else None
    reset = dict(fields(found[4])).get(1, 0) if 4 in found else None
    return found.get(1, 0), limit and limit.get(1, 0), limit and limit.get(2, 0), found.get(3, 0), reset


def name_of(message):
    """The name of the limit of a DescriptorStatus, or None."""
    name = dict(fields(dict(fields(message)).get(2, b""))).get(3)
    return name and name.decode()


class Answer:
    def __init__(self, message):
        every = fields(message)
        self.code = dict(every).get(1, 0)
        self.statuses = [status_of(value) for number, value in every if number == 2]
        self.names = [name_of(value) for number, value in every if number == 2]
        self.headers = {name.decode(): value.decode() for name, value in
                        (tuple(content for _, content in fields(value)) for number, value in every if number == 3)}
        self.metadata = next((struct_of(value) for number, value in every if number == 6), None)

    @property
    def codes(self):
        return [self.code] + [status[0] for status in self.statuses]

    @property
    def remaining(self):
        return [status[3] for status in self.statuses]


def value_of(message):
    number, content = fields(message)[0]
    return {1: lambda: None, 2: lambda: content, 3: lambda: content.decode(), 4: lambda: bool(content), 5: lambda: struct_of(content),
            6: lambda: [value_of(one) for _, one in fields(content)]}[number]()


def struct_of(message):
    return {name.decode(): value_of(value) for name, value in
            (tuple(content for _, content in fields(entry)) for _, entry in fields(message))}
