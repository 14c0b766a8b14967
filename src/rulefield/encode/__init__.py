"""From what users have to what models read: features, label schemes."""
