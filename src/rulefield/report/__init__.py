"""Pictures and self-contained HTML from results."""
