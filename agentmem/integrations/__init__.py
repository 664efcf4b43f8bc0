"""Bridges to other ecosystems, one module each; each needs an extra of its own.

* `agentmem.integrations.mcp_server`: a server of the Model Context Protocol (``agentmem[mcp]``)
* `agentmem.integrations.langchain`: a retriever for LangChain (``agentmem[langchain]``)
"""
