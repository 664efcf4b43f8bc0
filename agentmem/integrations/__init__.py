"""Bridges to other ecosystems, one module each; each needs an extra of its own.

* `agentmem.integrations.mcp_server`: a server of the Model Context Protocol (``agentmem[mcp]``)
* `agentmem.integrations.langchain`: a retriever for LangChain (``agentmem[langchain]``)
* `agentmem.integrations.langgraph_graph`: a search as a graph and as a tool of LangGraph, and
  `agentmem.integrations.langgraph_store`: a store for it (``agentmem[langgraph]``)
* `agentmem.integrations.home`: a memory for any thread and any event loop, shared by bridges
"""
