"""Imports checkpoints from other toolkits, exports ours to runtimes, and publishes them: `python -m conversion`.

The levels of this folder, lowest first; a module imports from lower levels only:

    options.py, mapping.py, positions.py    the tables of options, tensors and positions
    messages.py                             error messages of the commands
    recognise.py                            which toolkit wrote a checkpoint
    files/                                  reads untrusted files
    segmentation/                           builds the tokenizer of a converted model
    parity/                                 compares a converted model with the original
    converted.py                            what every converter returns
    hub/                                    the card, the repository and its upload
    importing.py                            converts, compares and writes
    toolkits/                               one converter for each toolkit
    runtimes/                               one exporter for each runtime
    __main__.py                             the command
"""
