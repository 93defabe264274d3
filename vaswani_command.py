"""Entry point of the `vaswani` command.

Importing `vaswani_transformer` registers the model with transformers, and importing that and torch takes seconds. Much
of the command line needs neither, so here the package is only made importable: its `__init__` runs when one of the
names defined there is first asked for.
"""

import importlib
import importlib.util
import sys


def defer(package_name: str):
    """Makes the submodules of a package importable without running its `__init__` yet."""
    if package_name in sys.modules:
        return
    spec = importlib.util.find_spec(package_name)
    package = importlib.util.module_from_spec(spec)

    def find(name: str):
        """Asked for what the package does not have so far (PEP 562)."""
        if importlib.util.find_spec(f"{package_name}.{name}"):
            return importlib.import_module(f"{package_name}.{name}")
        del package.__getattr__
        spec.loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = find
    sys.modules[package_name] = package


def main():
    defer("vaswani_transformer")
    from vaswani_transformer.cli import app

    app(prog_name="vaswani")


if __name__ == "__main__":
    main()
