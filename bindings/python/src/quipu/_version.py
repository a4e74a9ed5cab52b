"""The version of this package, which is the library's."""

__version__ = "0.2.0"
