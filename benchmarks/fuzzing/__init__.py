"""Hostile input by the thousand: altered model files, altered texts, random problems against enumeration."""
