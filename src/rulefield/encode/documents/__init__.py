"""From pages to graphs: files of pages, neighbors in sight, named features."""
