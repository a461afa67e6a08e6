"""Numbers for a Case, from raw 64-bit words, so that every machine draws the same ones.

Positions: `zero`, `equal:N`, `rise:N` (N, N+1, ...), `shuffled:N` (a permutation of that), `uniform:N` (0..N),
`around:N` (N-8..N+8), `log` (log-uniform to 2^31-1) and `log:N` (to N), `negative:N` (-N..-1), `list:a/b/c`, and
`decode:N` (sequences of mixed lengths up to N, padding at 0).
Slots: `identity`, `permuted`, `reversed`, `last` (the last rows), `none` (all -1), `holes` (some negative, -1 and
others), `int-min`, `first` (row 0 alone), `high` (rows past 65,535), `duplicate` (tokens in pairs), `past`
(one slot at pool_size or above), `list:a/b/c`.
Values of q and k: `normal`, `wide`, `subnormal`, `huge`, `cancel`, `zeros`, `mixed` (one of these per head),
`nonfinite` (normal with Inf and NaN), `ones`. V and the pools are always arbitrary bits, see `raw_bits` and `v_bits`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import reference
from conformance.case import Case, CaseError

TORCH_DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
    "i16": torch.int16,
    "u32": torch.uint32,
    "u8": torch.uint8,
}
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
_LEAST = {"log": 1, "uniform": 0, "negative": 1, "decode": 0}
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]
# A long prefill is drawn a part at a time: raw words and float64 values, far larger than the arrays, stay in the cache.
_WORDS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class _Range:
    """Binary exponents of a format: subnormal step, smallest normal, largest."""

    tiny: int
    low: int
    high: int


_RANGES = {"f16": _Range(-24, -14, 15), "bf16": _Range(-133, -126, 127), "f32": _Range(-149, -126, 127)}


def words(case: Case, name: str, count: int) -> Words:
    """The first `count` raw words of the stream of this case and `name`."""
    return _stream(case, name).random_raw(count)


def _stream(case: Case, name: str) -> np.random.Philox:
    """The raw words of this case and `name` (Philox, fixed by its paper).

    Cases that differ in plan, layout, memory, fault, situation or token draw alike, so that they can be compared.
    """
    drawn = case.but(plan="", layout="dense", memory="margins", fault="", situation="", token=-1)
    return np.random.Philox(key=[case.seed, zlib.crc32(f"{name} of {drawn}".encode())])


def _unit(raw: Words) -> Floats:
    """Uniform in [0, 1), exact multiples of 2^-53."""
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _integers(raw: Words, low: int, high: int) -> npt.NDArray[np.int64]:
    """Integers in [low, high]."""
    return (low + np.floor(_unit(raw) * (high - low + 1))).astype(np.int64)


def _whole(text: str, kind: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CaseError(f"{kind} needs a whole number, as in {kind}:7, got {text!r}") from None


def _number(text: str, kind: str) -> int:
    """The number of a kind of positions, within what int32 and the kind can hold."""
    number = _whole(text, kind)
    # -2^31 is written as negative:2147483648.
    if not INT32_MIN <= number <= INT32_MAX + 1:
        raise CaseError(f"{kind}:{text} is past int32")
    if kind in _LEAST and number < _LEAST[kind]:
        raise CaseError(f"{kind} needs a number of at least {_LEAST[kind]}, got {text}")
    return number


def _listed(text: str, count: int) -> npt.NDArray[np.int64]:
    values = [_whole(item, "list") for item in text.split("/")] if text else []
    if any(not INT32_MIN <= value <= INT32_MAX for value in values):
        raise CaseError(f"a list of int32 holds {INT32_MIN} to {INT32_MAX}, got {text}")
    if len(values) != count:
        raise CaseError(f"a list of {len(values)} for {count} tokens")
    return np.array(values, dtype=np.int64)


def positions(case: Case) -> Tensor:
    """[num_tokens] int32."""
    kind, _, text = case.positions.partition(":")
    count = case.num_tokens
    raw = words(case, "positions", count)
    if kind == "list":
        drawn = _listed(text, count)
    elif kind == "zero":
        drawn = np.zeros(count, dtype=np.int64)
    elif kind == "log":
        most = _number(text, kind) if text else INT32_MAX
        leading = np.uint64(1) << (raw % np.uint64(max(1, most.bit_length())))
        drawn = np.minimum((leading | ((raw >> np.uint64(8)) & (leading - np.uint64(1)))).astype(np.int64), most)
    else:
        drawn = _positions_by_number(kind, _number(text, kind), raw)
    return torch.from_numpy(np.clip(drawn, INT32_MIN, INT32_MAX).astype(np.int32))


def _positions_by_number(kind: str, n: int, raw: Words) -> npt.NDArray[np.int64]:
    count = len(raw)
    if kind == "equal":
        return np.full(count, n, dtype=np.int64)
    if kind == "rise":
        return n + np.arange(count, dtype=np.int64)
    if kind == "shuffled":
        return n + np.argsort(raw, kind="stable")
    if kind == "uniform":
        return _integers(raw, 0, n)
    if kind == "around":
        return _integers(raw, n - 8, n + 8)
    if kind == "negative":
        return _integers(raw, -n, -1)
    if kind == "decode":
        lengths = _integers(raw, 0, n)
        return np.where(raw % np.uint64(8) == 0, 0, lengths)
    raise CaseError(f"unknown kind of positions: {kind}")


def slots(case: Case) -> Tensor:
    """[num_tokens] int32; rows are distinct but for `duplicate`, tokens beyond the pool's rows get -1."""
    kind, _, text = case.slots.partition(":")
    if kind == "list":
        return torch.from_numpy(_listed(text, case.num_tokens).astype(np.int32))
    draw = _SLOTS.get(kind)
    if draw is None:
        raise CaseError(f"unknown kind of slots: {kind}")
    drawn = np.full(case.num_tokens, -1, dtype=np.int64)
    rows = draw(case, words(case, "slots", case.num_tokens + case.pool_size))[: case.num_tokens]
    drawn[: len(rows)] = rows
    return torch.from_numpy(drawn.astype(np.int32))


def _permutation(case: Case, raw: Words) -> npt.NDArray[np.int64]:
    return np.argsort(raw[case.num_tokens :], kind="stable")


def _holes(case: Case, raw: Words) -> npt.NDArray[np.int64]:
    rows = np.full(case.num_tokens, -1, dtype=np.int64)
    permuted = _permutation(case, raw)[: case.num_tokens]
    rows[: len(permuted)] = permuted
    negatives = np.array([-1, -2, -1 - case.pool_size, INT32_MIN])
    chosen = negatives[raw[: case.num_tokens] % np.uint64(4)]
    return np.where(raw[: case.num_tokens] % np.uint64(5) < 2, chosen, rows)


def _high(case: Case, raw: Words) -> npt.NDArray[np.int64]:
    first = 65536
    if case.pool_size <= first:
        raise CaseError("slots=high needs a pool of more than 65536 rows")
    span = case.pool_size - first
    return first + np.argsort(raw[case.num_tokens : case.num_tokens + span], kind="stable")


def _duplicate(case: Case, raw: Words) -> npt.NDArray[np.int64]:
    return np.repeat(_permutation(case, raw), 2)


def _past(case: Case, raw: Words) -> npt.NDArray[np.int64]:
    rows = np.full(case.num_tokens, -1, dtype=np.int64)
    permuted = _permutation(case, raw)[: case.num_tokens]
    rows[: len(permuted)] = permuted
    if case.num_tokens:
        rows[-1] = case.pool_size + int(raw[0] % np.uint64(2))
    return rows


_SLOTS: dict[str, Callable[[Case, Words], npt.NDArray[np.int64]]] = {
    "identity": lambda case, _: np.arange(case.pool_size),
    "permuted": _permutation,
    "reversed": lambda case, _: np.arange(case.pool_size)[::-1],
    "last": lambda case, _: np.arange(max(0, case.pool_size - case.num_tokens), case.pool_size),
    "none": lambda _, raw: np.full(len(raw), -1),
    "int-min": lambda _, raw: np.full(len(raw), INT32_MIN),
    "first": lambda _case, _raw: np.zeros(1, dtype=np.int64),
    "holes": _holes,
    "high": _high,
    "duplicate": _duplicate,
    "past": _past,
}


def raw_bits(case: Case, name: str, shape: tuple[int, ...]) -> Tensor:
    """Arbitrary bits of the case's dtype, one in eight a special value: zeros, infinities and NaNs of either sign,
    the smallest subnormal, the smallest normal, the largest finite value, one."""
    count = int(np.prod(shape))
    drawn = _bits(case, name, count)
    kind = words(case, f"{name} kind", -(-count // 8)).astype("<u8").view(np.uint8)[:count]
    special = _specials(drawn.dtype, case.dtype)[(kind >> 3) % 14]
    return _from_bits(np.where(kind % 8 == 0, special, drawn), case.dtype).reshape(shape)


def v_bits(case: Case, shape: tuple[int, int, int]) -> Tensor:
    """V [num_tokens, num_kv_heads, head_dim]: arbitrary bits, or every pattern of a 16-bit dtype in turn."""
    if case.v_bits == "arbitrary":
        return raw_bits(case, "v", shape)
    if case.v_bits != "every" or case.dtype == "f32":
        raise CaseError(f"v_bits is arbitrary, or every for f16 and bf16; got {case.v_bits} for {case.dtype}")
    return _from_bits(np.arange(np.prod(shape)).astype(np.uint16), case.dtype).reshape(shape)


def _specials(unsigned: np.dtype[Any], dtype: str) -> npt.NDArray[Any]:
    exponent, quiet = _EXPONENT[dtype], _QUIET[dtype]
    one = (exponent >> 1) & ~(exponent & -exponent) & exponent
    positive = [0, 1, exponent & -exponent, one, exponent - 1, exponent, exponent | quiet]
    sign = 1 << (8 * unsigned.itemsize - 1)
    return np.array([*positive, *(bits | sign for bits in positive)], dtype=unsigned)


_EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}
_QUIET = {"f16": 0x0200, "bf16": 0x0040, "f32": 0x400000}


def pool_bits(case: Case, name: str, shape: tuple[int, ...]) -> Tensor:
    """What a pool holds before a call: mostly signalling NaNs, whose bits any arithmetic changes; the rest zeros of
    either sign and arbitrary bits."""
    count = int(np.prod(shape))
    drawn = _bits(case, name, count)
    kind = words(case, f"{name} kind", -(-count // 8)).astype("<u8").view(np.uint8)[:count] % 8
    sign = drawn & drawn.dtype.type(1 << (8 * drawn.itemsize - 1))
    nan = drawn & drawn.dtype.type(~_QUIET[case.dtype] & (256**drawn.itemsize - 1))
    nan |= drawn.dtype.type(_EXPONENT[case.dtype] | 1)
    return _from_bits(np.where(kind == 0, drawn, np.where(kind == 1, sign, nan)), case.dtype).reshape(shape)


def _bits(case: Case, name: str, count: int) -> npt.NDArray[Any]:
    """`count` unsigned integers as wide as the case's dtype."""
    unsigned = np.dtype("<u4" if case.dtype == "f32" else "<u2")
    per_word = 8 // unsigned.itemsize
    return words(case, name, -(-count // per_word)).astype("<u8").view(unsigned)[:count]


def _from_bits(unsigned: npt.NDArray[Any], dtype: str) -> Tensor:
    signed = np.int32 if dtype == "f32" else np.int16
    return torch.from_numpy(unsigned.view(signed)).view(TORCH_DTYPES[dtype])


def values(case: Case, name: str, shape: tuple[int, int, int]) -> Tensor:
    """[num_tokens, num_heads, head_dim] of the case's dtype, drawn as `case.values` says."""
    stream = _stream(case, name)
    drawn = torch.empty(shape, dtype=TORCH_DTYPES[case.dtype])
    step = max(1, _WORDS_AT_ONCE // max(1, shape[1] * shape[2]))
    for first in range(0, shape[0], step):
        rows = drawn[first : first + step]
        raw = stream.random_raw(rows.numel()).reshape(rows.shape)
        rows.copy_(_rows(case, raw, np.arange(first, first + len(rows))))
    return drawn


def _rows(case: Case, raw: Words, tokens: Tokens) -> Tensor:
    """The values of these tokens; raw [len(tokens), num_heads, head_dim]."""
    if case.values == "mixed":
        return _as_dtype(_mixed(case, raw, tokens), case.dtype)
    if case.values == "nonfinite":
        return _with_nonfinite(_as_dtype(_normal(case, raw), case.dtype), raw)
    if case.values == "cancel":
        return _as_dtype(_cancel(case, raw, tokens), case.dtype)
    if case.values in _VALUES:
        return _as_dtype(_VALUES[case.values](case, raw), case.dtype)
    raise CaseError(f"unknown kind of values: {case.values}")


def _as_dtype(drawn: Floats, dtype: str) -> Tensor:
    return torch.from_numpy(drawn).to(TORCH_DTYPES[dtype])


def _normal(_: Case, raw: Words) -> Floats:
    """Sum of four uniforms, unit variance, |x| < 3.47: near enough to normal and exact everywhere."""
    low = np.uint64(0xFFFF)
    total = sum(((raw >> np.uint64(16 * part)) & low for part in range(1, 4)), start=raw & low)
    drawn: Floats = (total.astype(np.float64) - 131070.0) * (2.0**-16 * 3.0**0.5)
    return drawn


def _binades(raw: Words, low: int, high: int) -> Floats:
    """Log-uniform magnitudes in [2^low, 2^high), either sign."""
    mantissa = 1.0 + (raw >> np.uint64(40)).astype(np.float64) * 2.0**-24
    exponent = low + ((raw >> np.uint64(8)) % np.uint64(high - low)).astype(np.int32)
    drawn: Floats = np.ldexp(np.where(raw & np.uint64(1), -mantissa, mantissa), exponent)
    return drawn


def _wide(case: Case, raw: Words) -> Floats:
    limits = _RANGES[case.dtype]
    return _binades(raw, limits.low, limits.high - 2)


def _subnormal(case: Case, raw: Words) -> Floats:
    limits = _RANGES[case.dtype]
    return _binades(raw, limits.tiny, limits.low)


def _huge(case: Case, raw: Words) -> Floats:
    """The three largest binades: a pair of them may rotate past the largest finite value."""
    limits = _RANGES[case.dtype]
    largest = torch.finfo(TORCH_DTYPES[case.dtype]).max
    return np.clip(_binades(raw, limits.high - 2, limits.high + 1), -largest, largest)


def _zeros(case: Case, raw: Words) -> Floats:
    zero = np.where(raw & np.uint64(2), -0.0, 0.0)
    return np.where(raw & np.uint64(4), zero, _normal(case, raw))


def _cancel(case: Case, raw: Words, tokens: Tokens) -> Floats:
    """Pairs nearly along the rotation's axes, so that one of the two results nearly vanishes."""
    return _cancelling(case, raw, np.broadcast_to(tokens[:, None], raw.shape[:2]))


def _cancelling(case: Case, raw: Words, tokens: Tokens) -> Floats:
    """As `_cancel`, for rows [..., head_dim] of the given tokens [...]."""
    if case.head_dim % 2:
        raise CaseError(f"values that cancel need pairs: head_dim={case.head_dim} is odd")
    half = case.head_dim // 2
    if not tokens.size:
        return np.zeros(raw.shape)
    lowest = int(tokens.min())
    turn = reference.cos_sin(positions(case)[lowest : int(tokens.max()) + 1], case.rope_base, case.head_dim)
    # On a grid that hides how machines differ in the last bits of a cosine.
    cos, sin = (np.round(t.numpy()[tokens - lowest] * 2.0**24) * 2.0**-24 for t in turn)
    radius = _binades(raw[..., :half], -2, 3)
    upper = raw[..., half:] & np.uint64(1) == 0
    first, second = np.where(upper, sin, cos) * radius, np.where(upper, cos, -sin) * radius
    return np.concatenate((first, second), axis=-1)


def _mixed(case: Case, raw: Words, tokens: Tokens) -> Floats:
    """Each head of each token is of one kind: three in eight normal, the rest shared by the others."""
    which = ((raw[..., 0] >> np.uint64(20)) % np.uint64(8)).astype(np.int64)
    drawn = _normal(case, raw)
    for index, kind in enumerate((_wide, _subnormal, _huge, _zeros)):
        rows = which == index
        drawn[rows] = kind(case, raw[rows])
    rows = which == 4
    drawn[rows] = _cancelling(case, raw[rows], tokens[rows.nonzero()[0]])
    return drawn


_VALUES: dict[str, Callable[[Case, Words], Floats]] = {
    "normal": _normal,
    "wide": _wide,
    "subnormal": _subnormal,
    "huge": _huge,
    "zeros": _zeros,
    "ones": lambda _, raw: np.ones(raw.shape),
}


def _with_nonfinite(drawn: Tensor, raw: Words) -> Tensor:
    """One element in sixteen becomes Inf, -Inf or NaN."""
    chosen = torch.from_numpy((raw >> np.uint64(30)).astype(np.int64) % 16 == 0)
    which = torch.from_numpy((raw >> np.uint64(40)).astype(np.int64) % 3)
    special = torch.tensor([float("inf"), float("-inf"), float("nan")], dtype=drawn.dtype)[which]
    return torch.where(chosen, special, drawn)
