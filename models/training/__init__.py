"""Trains the models that are shipped: an embedder with two heads, and a small cross-encoder.

    python -m agentmem.models.training --help

Nothing here is imported at run time or is part of the wheel. It needs the extra `train`. A run
starts from published weights and reads only training sets:

    mine          hard negatives, found by the library's own search, false ones filtered out
    train         sentence vectors and token vectors from one pass
    shares        judges points between the published and the trained weights
    export        the ONNX graph with 8-bit weights, tokenizer, rarity weights, description
    cross         the cross-encoder, from every other layer of the trained embedder
    export-cross  its graph with 8-bit weights, tokenizer, description

A run of `train` or `cross` that was stopped goes on where it stopped.
"""
