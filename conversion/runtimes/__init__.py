"""One exporter for each runtime: it writes a folder, and compares what the runtime computes from it with our model.

Each module has `export(checkpoint, out, **options)`, and `add_arguments(parser)` if there are options.
What it writes has a module of its own where that is a subject: `ctranslate2_spec`, `onnx_graphs`, `marian_tokenizer`.
"""
