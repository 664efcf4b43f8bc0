"""Makes ``python -m agentmem`` the command line."""

from __future__ import annotations

from agentmem._cli import main

if __name__ == "__main__":
    main()
