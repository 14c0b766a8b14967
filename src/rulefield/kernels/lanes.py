"""The functions of :mod:`rulefield.kernels.lane_code` under their names, made when the first kernel that uses them is."""

from rulefield.kernels.jit import Intrinsic

_CODE = "rulefield.kernels.lane_code"

add8 = Intrinsic(_CODE, "add8")
exp8 = Intrinsic(_CODE, "exp8")
fill8 = Intrinsic(_CODE, "fill8")
fma8 = Intrinsic(_CODE, "fma8")
highest8 = Intrinsic(_CODE, "highest8")
least_positive8 = Intrinsic(_CODE, "least_positive8")
load8 = Intrinsic(_CODE, "load8")
lowest8 = Intrinsic(_CODE, "lowest8")
max8 = Intrinsic(_CODE, "max8")
mul8 = Intrinsic(_CODE, "mul8")
prefetch = Intrinsic(_CODE, "prefetch")
store8 = Intrinsic(_CODE, "store8")
sum8 = Intrinsic(_CODE, "sum8")
where_positive8 = Intrinsic(_CODE, "where_positive8")
word_at = Intrinsic(_CODE, "word_at")
