"""One exporter for each runtime: it writes a folder and compares the runtime's results with our model's.

Each module has `export(checkpoint, out, **options)`; the parameters, with their annotations, are options of the command
line.
`ctranslate2_spec`, `onnx_graphs` and `marian_tokenizer` write the runtimes' formats.
"""
