"""Commands on files of pages."""
