"""Hundreds of episodes, live: what the engine says of them, and what rules of co-occurrence would have said."""
