"""From pages to graphs: files of pages, neighbours in sight, named features."""
