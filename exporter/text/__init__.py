"""Text that a tenant chose, made safe to show."""
