"""Trains the embedder that is shipped: one encoder with two heads.

    python -m agentmem.models.training --help

Nothing here is imported at run time or is part of the wheel. It needs the extra `train`. A run
starts from published weights and reads only training sets:

    mine     hard negatives, found by the library's own search, false ones filtered out
    train    sentence vectors and token vectors from one pass; a run that was stopped goes on
    shares   judges points between the published and the trained weights
    export   the ONNX graph with 8-bit weights, tokenizer, rarity weights, description
"""
