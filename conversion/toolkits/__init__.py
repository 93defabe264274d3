"""One converter for each toolkit: its table of tensors, its table of options, and what is odd about it.

Each module begins with its tables:

    WEIGHTS         which tensor is which of ours, see mapping.py
    OPTIONS          which option is which field of our configuration, see options.py
    MUST_BE         options that may only have these values, because the paper's model has no other
    MUST_BE_OFF     options that must be unset

Then come its functions:

    add_arguments(parser)                       declares its own options, if there are any
    convert(source, unsafe=False, **options)    reads the checkpoint at `source`, a file or folder, as a `Converted`;
                                                `unsafe` lets a pickle run code
    compare_live(source, converted, model)      compares with the original itself, if that can run here

`convert` raises ConversionError if a file is damaged, another model's or not the toolkit's, or if options are not
supported, all of which the message names; FileNotFoundError if a file is missing.

How a toolkit's files are read is in files/, how it segments texts in segmentation/, in modules of the same name.
"""
