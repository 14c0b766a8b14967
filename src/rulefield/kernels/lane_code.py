"""Eight float64 at once: a vector type for kernels, where the compiler does not find the vectors by itself.

Numba runs LLVM without its straight-line vectorizer, and loops over a few dozen labels are too short for the loop
vectorizer. These functions say directly what is meant; LLVM maps the eight lanes to whatever the machine has
(AVX-512, AVX, SSE, NEON). Values of this type live in local variables of a kernel only. Indices count numbers, any
alignment is fine. Kernels take these functions from :mod:`rulefield.kernels.lanes`, which does not import numba yet.
"""

from functools import update_wrapper

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

N = 8
VECTOR = ir.VectorType(ir.DoubleType(), N)
SHORT = ir.VectorType(ir.FloatType(), N)
INTEGERS = ir.VectorType(ir.IntType(64), N)


class Eight(types.Type):
    """Numba's type of eight float64."""

    def __init__(self) -> None:
        super().__init__(name="Eight")


@register_model(Eight)
class EightModel(models.PrimitiveModel):
    """Stored as one LLVM vector."""

    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, VECTOR)


eight = Eight()


def _splat(builder, scalar):
    """Vector with the same value in all lanes."""
    single = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), N), [0] * N)
    return builder.shuffle_vector(single, ir.Constant(VECTOR, ir.Undefined), mask)


def _constant(value):
    return ir.Constant(VECTOR, [ir.Constant(ir.DoubleType(), value)] * N)


def _fuse(builder, a, b, c):
    """Return a * b + c, in one instruction where the machine has it."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{N}f64")
    return builder.call(function, [a, b, c])


def _pointer(context, builder, array_type, array, index, vector=VECTOR):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@intrinsic
def load8(typing_context, array, index):
    """Array[index : index + 8], of float64 or float32."""

    def generate(context, builder, signature, arguments):
        if signature.args[0].dtype == types.float32:
            pointer = _pointer(context, builder, signature.args[0], *arguments, SHORT)
            return builder.fpext(builder.load(pointer, align=4), VECTOR)
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load(pointer, align=8)

    return eight(array, types.uint64), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for ``array[index]`` to be brought into the cache: a loop that knows where it will look soon need not wait."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments, ir.IntType(8))
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def word_at(typing_context, array, index):
    """Eight bytes from ``array[index]`` on (uint8) as one number, wherever they lie; they must be there."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments, ir.IntType(64))
        return builder.load(place, align=1)

    return types.uint64(array, types.uint64), generate


@intrinsic
def store8(typing_context, array, index, value):
    """Array[index : index + 8] = value."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, eight), generate


@intrinsic
def fill8(typing_context, scalar):
    """Eight times the same number."""

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return eight(types.float64), generate


def of_lanes(result):
    """Return what makes an intrinsic of a function that writes the code for vectors; ``result`` is the type of its value."""

    def make(write):
        def typed(typing_context, *vectors):
            def generate(context, builder, signature, arguments):
                return write(builder, *arguments)

            return result(*[eight] * len(vectors)), generate

        return intrinsic(update_wrapper(typed, write))

    return make


@of_lanes(eight)
def fma8(builder, a, b, c):
    """Return a * b + c."""
    return _fuse(builder, a, b, c)


@of_lanes(eight)
def add8(builder, a, b):
    """Return a + b."""
    return builder.fadd(a, b)


@of_lanes(eight)
def mul8(builder, a, b):
    """Return a * b."""
    return builder.fmul(a, b)


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


@of_lanes(eight)
def max8(builder, a, b):
    """Return the larger in each lane."""
    return _larger(builder, a, b)


@of_lanes(eight)
def least_positive8(builder, a, b):
    """Return the smaller in each lane, of a where it is positive and b."""
    positive = builder.fcmp_ordered(">", a, _constant(0.0))
    return builder.select(builder.and_(positive, builder.fcmp_ordered("<", a, b)), a, b)


@of_lanes(eight)
def where_positive8(builder, a, b):
    """Return b where a is positive, else 0, in each lane."""
    return builder.select(builder.fcmp_ordered(">", a, _constant(0.0)), b, _constant(0.0))


def _fold(builder, vector, combine):
    """Combine the lanes, always in the same order: halves, then quarters, then the last two."""
    lanes = [builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(N)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [combine(builder, lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]


@of_lanes(types.float64)
def sum8(builder, a):
    """Sum of the lanes."""
    return _fold(builder, a, type(builder).fadd)


@of_lanes(types.float64)
def highest8(builder, a):
    """Largest lane."""
    return _fold(builder, a, _larger)


@of_lanes(types.float64)
def lowest8(builder, a):
    """Smallest lane."""
    return _fold(builder, a, _smaller)


LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest whole number in the low bits
FACTORIALS = (1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800)


@of_lanes(eight)
def exp8(builder, x):
    """Exp of each lane, for -700 < x < 700, to the last bit or two.

    exp(x) = 2^k exp(r), abs(r) <= ln(2)/2, exp(r) by its Taylor polynomial of degree 13 (remainder below 5e-18),
    2^k by writing k into the exponent.
    """
    shifted = _fuse(builder, x, _constant(LOG2_E), _constant(ROUND))
    k = builder.fsub(shifted, _constant(ROUND))
    r = _fuse(builder, k, _constant(-LN2_LOW), _fuse(builder, k, _constant(-LN2_HIGH), x))
    p = _constant(1.0 / FACTORIALS[-1])
    for factorial in FACTORIALS[-2::-1]:
        p = _fuse(builder, p, r, _constant(1.0 / factorial))
    whole = [ir.Constant(INTEGERS, [ir.Constant(ir.IntType(64), value)] * N) for value in (52, 1023 << 52)]
    bits = builder.add(builder.shl(builder.bitcast(shifted, INTEGERS), whole[0]), whole[1])
    return builder.fmul(p, builder.bitcast(bits, VECTOR))
