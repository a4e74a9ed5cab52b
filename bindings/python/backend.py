"""The build backend: scikit-build-core; a source distribution also contains the C sources, and
everything that is built the licence and the notice of the repository."""

import contextlib
import pathlib
import shutil

from scikit_build_core import build as _build
from scikit_build_core.build import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HERE = pathlib.Path(__file__).resolve().parent
COPY = HERE / "libquipu"
ROOT = HERE.parent.parent
# What CMake needs of the repository to build the library and the program, and the licence.
FOLDERS = ("apps", "cmake", "include", "src")
FILES = ("CMakeLists.txt", "LICENSE", "NOTICE", "layers.txt")
SYMBOLS = ("symbols.txt", "symbols_provider.txt", "symbols_server.txt")
LICENCES = ("LICENSE", "NOTICE")


@contextlib.contextmanager
def licences():
    """Have the licence and the notice beside this file: pyproject.toml cannot name others. An
    unpacked source distribution has them."""
    missing = [HERE / name for name in LICENCES if not (HERE / name).exists()]
    try:
        for path in missing:
            shutil.copy(ROOT / path.name, path)
        yield
    finally:
        for path in missing:
            path.unlink(missing_ok=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build a wheel."""
    with licences():
        return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build an editable wheel."""
    with licences():
        return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write a wheel's metadata."""
    with licences():
        return _build.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    """Write an editable wheel's metadata."""
    with licences():
        return _build.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_sdist(sdist_directory, config_settings=None):
    """Copy the C sources in while the archive is built; an unpacked archive has them."""
    copied = not COPY.exists()
    if copied:
        COPY.mkdir()
        for name in FOLDERS:
            shutil.copytree(ROOT / name, COPY / name)
        for name in FILES:
            shutil.copy(ROOT / name, COPY / name)
        (COPY / "tools").mkdir()
        for name in SYMBOLS:
            shutil.copy(ROOT / "tools" / name, COPY / "tools" / name)
    try:
        with licences():
            return _build.build_sdist(sdist_directory, config_settings)
    finally:
        if copied:
            shutil.rmtree(COPY)
