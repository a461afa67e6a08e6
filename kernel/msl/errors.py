"""The two ways in which Metal source can fail to become a program."""


class ShaderError(Exception):
    """The Metal source is at fault; the message starts with its own ``file:line`` if there is one."""


class CompilerMissing(Exception):  # noqa: N818 - the state of the machine, not a fault of the shader
    """No usable C++ compiler; the message says what to install."""
