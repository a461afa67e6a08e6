"""Unmodified Metal source, compiled as C++ and run on the CPU; kernel/LIMITS.md has what that cannot show."""

from kernel.msl.compile import Build
from kernel.msl.errors import CompilerMissing, ShaderError
from kernel.msl.program import FunctionConstants, Program, Specialisation, compile_program

__all__ = [
    "Build",
    "CompilerMissing",
    "FunctionConstants",
    "Program",
    "ShaderError",
    "Specialisation",
    "compile_program",
]
