"""Questions that scripts, assistants and browsers ask of the history: each tool once, with parameters and a bounded answer."""
