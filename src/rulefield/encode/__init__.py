"""From what users have to what models read: features, templates, label schemes."""
