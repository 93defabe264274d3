"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), Hugging Face-native and trained.

Importing this package registers the model with transformers' Auto classes, and the task "translation" with `pipeline`.
The public names are those of `registration.__all__`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .locating import checkpoint_path as checkpoint_path


def _runs_a_command() -> bool:
    """Whether this process runs `vaswani` or another program of ours, which all register the model when they use it.

    Registration imports torch and transformers, which takes seconds, and `vaswani --help` must not wait for them. It
    cannot wait for the first use of a public name: a program that imports this package and then calls
    `AutoModel.from_pretrained` never uses one. So only programs that are known not to need it are exempt.
    """
    program = sys.argv[0] if sys.argv else ""
    if Path(program).stem == "vaswani":
        return True
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is None:  # `python -m vaswani_transformer` imports this package before it knows the file to run
        return program == "-m" and __name__ in sys.orig_argv
    package = Path(__file__).parent
    folders = package, package.with_name("training"), package.with_name("conversion")  # the latter two in a clone
    return any(folder in Path(main).resolve().parents for folder in folders)


if not TYPE_CHECKING:  # type checkers see the import below, and would take any other name for a public one, too

    def __getattr__(name: str) -> Any:
        """Imports a public name, or the list of them, when a command first uses it (PEP 562)."""
        if name != "__all__" and (name.startswith("_") or find_spec(f"{__name__}.{name}")):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(".registration", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(".registration", __name__).__all__})


if TYPE_CHECKING or not _runs_a_command():
    from .registration import *  # noqa: E402, F403
    from .registration import __all__ as __all__  # noqa: E402
