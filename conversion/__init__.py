"""Brings checkpoints of other toolkits in, takes ours out to runtimes, and publishes them: `python -m conversion`.

The floors of this room, from the ground up; a module imports from lower floors only:

    options.py, mapping.py, positions.py    what a table of options, a table of tensors and a table of positions say
    files/                                  reads files that nobody vouches for
    segmentation/                           the tokenizer of a converted model
    parity/                                 compares a converted model with the original
    converted.py                            what every converter returns
    hub/                                    the card, the repository, and sending it
    toolkits/                               one converter for each toolkit
    runtimes/                               one exporter for each runtime
    __main__.py                             the command
"""
