"""The six stages of a search, and the chain that they form by default.

1. understand   what is asked: terms, names, codes, times, intent
2. scope        who may see what, and when
3. candidates   nearest by meaning and best by words
4. fuse         reciprocal rank fusion
5. rerank       a closer look at the best
6. budget       the working set: whole hits within the token budget, with citations
"""

from __future__ import annotations

from agentmem.pipeline._run import Pipeline, Search
from agentmem.pipeline._stage import SearchRequest, SearchState, Stage, need
from agentmem.pipeline.budget import Budget
from agentmem.pipeline.candidates import CandidatesStage
from agentmem.pipeline.fuse import FuseStage
from agentmem.pipeline.rerank import RerankStage
from agentmem.pipeline.scope import ScopeStage
from agentmem.pipeline.understand import Understand

__all__ = [
    "Budget",
    "CandidatesStage",
    "FuseStage",
    "Pipeline",
    "RerankStage",
    "ScopeStage",
    "Search",
    "SearchRequest",
    "SearchState",
    "Stage",
    "Understand",
    "need",
]
