"""A stand-in for SGLang's package: its public call, with our host target for its native part."""

__version__ = "stand-in"
