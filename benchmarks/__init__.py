"""Measurements of agentmem, through its public API only."""
