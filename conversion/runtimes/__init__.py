"""One exporter for each runtime: it writes a folder and compares the runtime's results with our model's.

Each module has `export(checkpoint, out, **options)`, and `add_arguments(parser)` if there are options.
`ctranslate2_spec`, `onnx_graphs` and `marian_tokenizer` write the runtimes' formats.
"""
