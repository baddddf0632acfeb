"""Text for people: figures, and names that a tenant chose, made safe to show."""
