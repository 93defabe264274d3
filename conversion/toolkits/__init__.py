"""One converter for each toolkit: a table of tensors, a table of options, and the toolkit's peculiarities.

Each module begins with its tables:

    WEIGHTS         maps tensors to ours, see mapping.py
    OPTIONS         maps options to fields of our configuration, see options.py
    MUST_BE         the only supported values of options
    MUST_BE_OFF     options that must be unset

Then its functions follow:

    convert(source, unsafe=False, **options)    converts the checkpoint at `source`, a file or folder, to a `Converted`;
                                                `unsafe` allows pickles that run code; the further parameters, with
                                                their annotations, are options of the command line
    compare_live(source, converted, model)      compares with the original, if it can run here

`convert` raises ConversionError if a file is damaged or of another model or toolkit, or if options are unsupported (the
message names all), and FileNotFoundError if a file is missing.

Modules of the same name in files/ read the toolkit's files, those in segmentation/ convert its segmentation.
"""
