"""Finds the folders `training` and `conversion`, which the library imports only when a user asks for what is in them.

An installed wheel has them inside the package, as `vaswani_transformer.training` and `.conversion`; in a clone they are
beside it.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from .console import Failure


PACKAGE = Path(__file__).parents[1]


def find(module: str) -> ModuleType:
    """Imports a module from inside the package, as in a wheel, or from beside it, as in a clone.

    Raises:
        Failure: its folder is in neither place.
    """
    folder = module.partition(".")[0]
    if (PACKAGE / folder).is_dir():
        return import_module(f"{PACKAGE.name}.{module}")
    clone = PACKAGE.parent
    if not (clone / folder / "__init__.py").is_file():
        raise Failure(f"The folder {folder} is missing from this installation. Reinstall vaswani-transformer.")
    if str(clone) not in sys.path:
        sys.path.insert(0, str(clone))
    return import_module(module)
