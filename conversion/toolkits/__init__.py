"""One converter for each toolkit: its table of tensors, its table of options, and what is odd about it.

Each module has `convert(source, unsafe=False, **options)`, which returns a `Converted`; `add_arguments(parser)` if
there are options; `compare_live(source, converted, model)` if the original can run here.
"""
