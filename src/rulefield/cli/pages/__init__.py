"""Commands that show a model to people: a report, what to label next, the workbench."""
