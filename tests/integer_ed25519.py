"""Ed25519 points in plain integers, written from RFC 8032, and the public keys that nobody may trust."""

from __future__ import annotations

import itertools

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
IDENTITY = (0, 1)


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def multiply(scalar, point):
    result = IDENTITY
    while scalar:
        result = add(result, point) if scalar & 1 else result
        point, scalar = add(point, point), scalar >> 1
    return result


def x_of(y):
    """Return the even x of a point with this y, None when there is no such point."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square:
        root = root * pow(2, (P - 1) // 4, P) % P
    if root * root % P != square:
        return None
    return root if root % 2 == 0 else P - root


BASE = (x_of(4 * pow(5, -1, P) % P), 4 * pow(5, -1, P) % P)


def encode(y, sign):
    return (y | sign << 255).to_bytes(32, "little")


def encoded(point):
    return encode(point[1], point[0] & 1)


def lenient_spellings(y):
    """Return every encoding that a decoder without checks reads as a point with this y: y or y + P, either sign."""
    return {encode(value, sign) for value in (y, y + P) if value < 2**255 for sign in (0, 1)}


def small_order_points():
    """Return the eight points whose order divides 8."""
    points = ((x_of(y), y) for y in itertools.count(2) if x_of(y) is not None)
    generator = next(t for t in (multiply(ORDER, point) for point in points) if multiply(4, t) != IDENTITY)
    return [multiply(factor, generator) for factor in range(8)]


SMALL_ORDER = sorted(set().union(*(lenient_spellings(y) for _, y in small_order_points())))
"""The 14 spellings of the eight points of small order."""

NON_CANONICAL = [encode(y, sign) for y in range(P, 2**255) if x_of(y % P) is not None for sign in (0, 1)]
"""The 24 spellings of points on the curve whose y is not below P."""


def outside_the_main_subgroup(count):
    """Return public keys, each a multiple of the base point plus a point of small order."""
    torsion = [point for point in small_order_points() if point != IDENTITY]
    return [encoded(add(multiply(n + 2, BASE), torsion[n % 7])) for n in range(count)]


def off_the_curve(count):
    found = (encode(y, y & 1) for y in itertools.count(2) if x_of(y) is None)
    return list(itertools.islice(found, count))
