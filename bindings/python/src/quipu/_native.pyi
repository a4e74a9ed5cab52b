"""The extension module, made by native/generate.py."""

from typing import Any

ffi: Any
lib: Any
